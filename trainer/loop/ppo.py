"""The PPO loop."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

from trainer.loop.collect import measure, sample, sync_engine, update_measures
from trainer.loop.debug import show_debug
from trainer.loop.evaluate import evaluate
from trainer.loop.profile import StepProfiler
from trainer.loop.progress import Progress, keep, save
from trainer.loop.report import Timing, running_scores, show_progress, step_metrics
from trainer.loop.run import Run
from trainer.loop.samples import SampleFile
from trainer.loop.schedule import lr_factor, set_lr
from trainer.loop.targets import compute_targets, normalized_scores
from trainer.loop.update import update
from trainer.record import MetricsFile
from trainer.signals import StopFlag


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
    metrics_file, profiler = MetricsFile(directory, enabled=world.is_main), StepProfiler(run, directory)
    samples = SampleFile(directory, count=settings.eval_samples, enabled=world.is_main)
    if progress.step == 0:
        metrics_file.step(0, evaluate(run, 0, samples))
    while progress.step < run.last_step and not world.any(stop.requested):
        step = progress.step + 1
        profiler.before(step)
        factor = lr_factor(step, settings.total_steps, settings.optim)
        rates = {name: set_lr(optimizer, factor) for name, (_, optimizer) in run.trained.items()}

        started = time.perf_counter()
        sync_engine(run, progress.step)
        examples, response = sample(run, step)
        sampled = time.perf_counter()
        by_update = update_measures(run.config, step)
        experience = measure(run, examples, response, actor=not by_update).gathered(world)
        if world.any(stop.requested):
            break
        kl_coef = progress.controller.coef
        scores, normalizer = normalized_scores(experience, run.config, progress.normalizer)
        targets = compute_targets(experience, scores, run.config.algorithm, kl_coef, run.mathematics)
        targets = dataclasses.replace(targets, measures=by_update)
        measured = time.perf_counter()
        stats = update(run, experience, targets, step)
        experience = experience.completed(world) if by_update else experience
        done = time.perf_counter()

        timing = Timing(rollout_s=sampled - started, update_s=done - measured, step_s=done - started)
        metrics = step_metrics(run, experience, targets, stats, timing)
        metrics |= {"kl/coef": kl_coef, "actor/lr": rates["actor"]} | running_scores(normalizer)
        progress = Progress(
            step=step,
            controller=progress.controller.updated(metrics["kl/actor_ref"], len(experience.tokens)),
            normalizer=normalizer,
            nonfinite_steps=progress.nonfinite_steps + 1 if stats.skipped else 0,
            best=progress.best,
        )
        if step == run.last_step or (settings.test_freq and step % settings.test_freq == 0):
            metrics |= evaluate(run, step, samples)
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
