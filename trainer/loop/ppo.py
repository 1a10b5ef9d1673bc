"""The PPO loop."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path

from trainer.algorithms import KlController
from trainer.distributed import save_checkpoint
from trainer.failures import NonFiniteError
from trainer.loop.collect import measure, sample, sync_engine
from trainer.loop.debug import show_debug
from trainer.loop.evaluate import evaluate
from trainer.loop.report import Timing, show_progress, step_metrics
from trainer.loop.run import Run
from trainer.loop.schedule import lr_factor, set_lr
from trainer.loop.targets import compute_targets
from trainer.loop.update import update
from trainer.record import MetricsFile
from trainer.signals import StopFlag

MAX_NONFINITE_STEPS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a run is.

    Attributes:
        step: Training steps done.
        controller: The KL controller of the next step.
        nonfinite_steps: Steps in a row with an update that was left out.
    """

    step: int
    controller: KlController
    nonfinite_steps: int = 0


def train(run: Run, progress: Progress, directory: Path, stop: StopFlag) -> Progress:
    """Train until the last step, or until somebody asks to stop.

    A step that was asked to stop before its update is abandoned; one in its update is finished. Either way the networks
    are those of a whole step, and they are saved.

    Args:
        run: The parts.
        progress: Where to go on.
        directory: Where metrics and checkpoints go.
        stop: Looked at before each update and after each step; the ranks agree on it.

    Returns:
        How far it came.

    Raises:
        NonFiniteError: Updates had to be left out in three steps in a row.
    """
    settings, world = run.config.trainer, run.world
    metrics_file = MetricsFile(directory, enabled=world.is_main)
    if progress.step == 0:
        metrics_file.step(0, evaluate(run, 0))
    while progress.step < run.last_step and not world.any(stop.requested):
        step = progress.step + 1
        factor = lr_factor(step, settings.total_steps, settings.optim)
        rates = {name: set_lr(optimizer, factor) for name, (_, optimizer) in run.trained.items()}

        started = time.perf_counter()
        sync_engine(run, progress.step)
        examples, response = sample(run, step)
        sampled = time.perf_counter()
        experience = measure(run, examples, response).gathered(world)
        if world.any(stop.requested):
            break
        kl_coef = progress.controller.coef
        targets = compute_targets(experience, run.config.algorithm, kl_coef, run.mathematics)
        measured = time.perf_counter()
        stats = update(run, experience, targets, step)
        done = time.perf_counter()

        timing = Timing(rollout_s=sampled - started, update_s=done - measured, step_s=done - started)
        metrics = step_metrics(run, experience, targets, stats, timing)
        metrics |= {"kl/coef": kl_coef, "actor/lr": rates["actor"]}
        progress = Progress(
            step=step,
            controller=progress.controller.updated(metrics["kl/actor_ref"], len(experience.tokens)),
            nonfinite_steps=progress.nonfinite_steps + 1 if stats.skipped else 0,
        )
        if step == run.last_step or (settings.test_freq and step % settings.test_freq == 0):
            metrics |= evaluate(run, step)
        metrics_file.step(step, metrics)
        show_progress(run, step, metrics)
        show_debug(run, step, metrics, stats.components)
        if progress.nonfinite_steps >= MAX_NONFINITE_STEPS:
            raise NonFiniteError(
                f"loss or gradient was not finite in {MAX_NONFINITE_STEPS} steps in a row, the last was step {step}",
                hint="lower trainer.optim.lr, or look at the reward: its scale may be too large",
            )
        if settings.save_freq and step % settings.save_freq == 0 and step < run.last_step:
            save(run, progress, directory, metrics_file)
    if progress.step:
        save(run, progress, directory, metrics_file)
    return progress


def save(run: Run, progress: Progress, directory: Path, metrics_file: MetricsFile) -> None:
    """Write a checkpoint and announce it."""
    state = {
        "step": progress.step,
        "kl_coef": progress.controller.coef,
        "nonfinite_steps": progress.nonfinite_steps,
        "model": dataclasses.asdict(run.config.model),
        "data": dataclasses.asdict(run.config.data),
    }
    keep = run.config.trainer.max_checkpoints
    path = save_checkpoint(directory, progress.step, run.trained, state, run.world, keep=keep)
    metrics_file.checkpoint(progress.step, path)
