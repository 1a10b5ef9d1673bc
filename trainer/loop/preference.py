"""The loop that learns from given answers: DPO and KTO."""

from __future__ import annotations

import time
from pathlib import Path

from trainer.loop.debug import show_debug
from trainer.loop.perf import num_parameters
from trainer.loop.preference_batch import PreferenceBatch, preference_batch, with_reference
from trainer.loop.preference_evaluate import evaluate_preferences, held_out_preferences
from trainer.loop.preference_update import update_on_preferences
from trainer.loop.profile import StepProfiler
from trainer.loop.progress import Progress, keep, save
from trainer.loop.report import Timing, perf_metrics, show_progress
from trainer.loop.run import Run
from trainer.loop.samples import SampleFile
from trainer.loop.schedule import lr_factor, set_lr
from trainer.record import MetricsFile
from trainer.signals import StopFlag


def train_on_preferences(run: Run, progress: Progress, directory: Path, stop: StopFlag) -> Progress:
    """Train until the last step, or until somebody asks to stop; arguments, result and errors as in `ppo.train`.

    The reference's log-probabilities are measured once per step, before its updates. Nothing is sampled but in the
    evaluation.
    """
    settings, world = run.config.trainer, run.world
    metrics_file, profiler = MetricsFile(directory, enabled=world.is_main), StepProfiler(run, directory)
    samples = SampleFile(directory, count=settings.eval_samples, enabled=world.is_main)
    held_out = held_out_preferences(run)
    if progress.step == 0:
        metrics_file.step(0, evaluate_preferences(run, held_out, 0, samples))
    while progress.step < run.last_step and not world.any(stop.requested):
        step = progress.step + 1
        profiler.before(step)
        factor = lr_factor(step, settings.total_steps, settings.optim)
        rates = {name: set_lr(optimizer, factor) for name, (_, optimizer) in run.trained.items()}

        started = time.perf_counter()
        batch = with_reference(run, preference_batch(run, run.order.batch(step)))
        if world.any(stop.requested):
            break
        measured = time.perf_counter()
        stats = update_on_preferences(run, batch, step)
        done = time.perf_counter()

        timing = Timing(rollout_s=0.0, update_s=done - measured, step_s=done - started)
        metrics = stats.means() | _speed(run, batch, timing) | {"actor/lr": rates["actor"]}
        progress = Progress(
            step=step,
            controller=progress.controller,
            nonfinite_steps=progress.nonfinite_steps + 1 if stats.skipped else 0,
            best=progress.best,
        )
        if step == run.last_step or (settings.test_freq and step % settings.test_freq == 0):
            metrics |= evaluate_preferences(run, held_out, step, samples)
        metrics_file.step(step, metrics)
        show_progress(run, step, metrics)
        show_debug(run, step, metrics, stats.components)
        profiler.after(step)
        progress.check_finite()
        progress = keep(run, progress, metrics, directory, metrics_file)
    profiler.close()
    if progress.step:
        save(run, progress, directory, metrics_file)
    return progress


def _speed(run: Run, batch: PreferenceBatch, timing: Timing) -> dict[str, float]:
    """Speed of a step by the usual count: 2 FLOPs per parameter and token forward, 4 backward (attention left out)."""
    tokens = batch.attention_mask.sum(dim=(1, 2)).tolist()
    epochs, size = run.config.trainer.ppo_epochs, num_parameters(run.actor)
    # KTO's answers to other prompts go forward only.
    updates = 6 * tokens[0] + (6 if run.config.algorithm.name == "dpo" else 2) * tokens[1]
    return perf_metrics(run, sum(tokens), float(size * (2 * sum(tokens) + epochs * updates)), timing)
