"""How far a run is: what a checkpoint holds beside networks and optimizers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainer.algorithms import KlController, RewardNormalizer
from trainer.distributed import prune_checkpoints, save_checkpoint
from trainer.failures import NonFiniteError
from trainer.loop.best import Best, better, write_best
from trainer.loop.run import Run
from trainer.record import MetricsFile

MAX_NONFINITE_STEPS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a run is.

    Attributes:
        step: Training steps done.
        controller: The KL controller of the next step.
        normalizer: What is known of the scores so far (see `reward.normalize`).
        nonfinite_steps: Steps in a row with an update that was left out.
        best: The best step so far by `trainer.save_best`.
    """

    step: int
    controller: KlController
    normalizer: RewardNormalizer = field(default_factory=RewardNormalizer)
    nonfinite_steps: int = 0
    best: Best | None = None

    def check_finite(self) -> None:
        """End a run that no longer learns.

        Raises:
            NonFiniteError: Updates had to be left out in three steps in a row.
        """
        if self.nonfinite_steps >= MAX_NONFINITE_STEPS:
            what = f"loss or gradient was not finite in {MAX_NONFINITE_STEPS} steps in a row"
            raise NonFiniteError(
                f"{what}, the last was step {self.step}",
                hint="lower trainer.optim.lr, or look at the reward: its scale may be too large",
            )


def keep(
    run: Run, progress: Progress, metrics: Mapping[str, float], directory: Path, metrics_file: MetricsFile
) -> Progress:
    """Save what is due after a step: the best so far, and every `trainer.save_freq` steps.

    Args:
        run: The run.
        progress: How far it is.
        metrics: What the step measured; equal on all ranks in what `trainer.save_best` may name.
        directory: The run's directory.
        metrics_file: Where checkpoints are announced.

    Returns:
        The progress, with the best step up to date.
    """
    settings = run.config.trainer
    best = better(progress.best, progress.step, metrics, settings)
    due = settings.save_freq and progress.step % settings.save_freq == 0 and progress.step < run.last_step
    if best is not None:
        previous, progress = progress.best, dataclasses.replace(progress, best=best)
        # The one before stays until the new one is named, so that a kill in between leaves a best behind.
        save(run, progress, directory, metrics_file, also=previous)
        if run.world.is_main:
            write_best(directory, best)
            prune_checkpoints(directory, keep=settings.max_checkpoints, stay={best.step})
    elif due:
        save(run, progress, directory, metrics_file)
    return progress


def save(run: Run, progress: Progress, directory: Path, metrics_file: MetricsFile, *, also: Best | None = None) -> None:
    """Write a checkpoint, unless this step has one, and announce it.

    Args:
        run: The run.
        progress: How far it is.
        directory: The run's directory.
        metrics_file: Where it is announced.
        also: A step besides the best whose checkpoint must stay.
    """
    state = {
        "step": progress.step,
        "kl_coef": progress.controller.coef,
        "reward_normalizer": progress.normalizer.saved(),
        "nonfinite_steps": progress.nonfinite_steps,
        "model": dataclasses.asdict(run.config.model),
        "data": dataclasses.asdict(run.config.data),
    }
    stay = {best.step for best in (progress.best, also) if best is not None}
    number = run.config.trainer.max_checkpoints
    path = save_checkpoint(directory, progress.step, run.trained, state, run.world, keep=number, stay=stay)
    best = progress.best
    metrics_file.checkpoint(progress.step, path, best_by=best.metric if best and best.step == progress.step else None)
