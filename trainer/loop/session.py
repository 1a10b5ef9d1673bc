"""One run from its configuration to its result, in a directory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from trainer.algorithms import RewardNormalizer
from trainer.config import Config, ConfigError, ConfigProblem, flatten
from trainer.config.schema import COMPARING_ESTIMATORS
from trainer.console import say
from trainer.distributed import complete_checkpoints, load_checkpoint, open_world, read_progress
from trainer.loop.best import Best, read_best
from trainer.loop.mathematics import Mathematics
from trainer.loop.perf import peak_memory_gb
from trainer.loop.ppo import train
from trainer.loop.preference import train_on_preferences
from trainer.loop.progress import Progress
from trainer.loop.run import Run, build_run, first_controller
from trainer.record import Result
from trainer.signals import StopFlag

TRAINERS: Mapping[str, Callable[[Run, Progress, Path, StopFlag], Progress]] = {
    "ppo": train,
    "dpo": train_on_preferences,
    "kto": train_on_preferences,
}
"""The loop of each `algorithm.name`."""


def run_session(config: Config, directory: Path, stop: StopFlag, *, mathematics: Mathematics | None = None) -> Result:
    """Build the run, resume from the newest complete checkpoint if there is one, and train.

    Args:
        config: The configuration.
        directory: Where metrics, checkpoints and the result belong.
        stop: Whether somebody asked to stop.
        mathematics: Other formulas than the configuration's.

    Returns:
        How it ended: finished or stopped.
    """
    if config.system.num_threads is not None:
        torch.set_num_threads(config.system.num_threads)
    torch.use_deterministic_algorithms(config.system.determinism)
    with open_world(config.system) as world:
        if world.any(stop.requested):
            return Result(
                status="stopped",
                last_step=max(complete_checkpoints(directory), default=0),
                peak_memory_gb=peak_memory_gb(world.device),
            )
        run = build_run(config, world, mathematics)
        if world.is_main and config.rollout.n == 1 and config.algorithm.adv_estimator in COMPARING_ESTIMATORS:
            say(
                f"note: with rollout.n = 1 nothing is compared: algorithm.adv_estimator = "
                f"{config.algorithm.adv_estimator} takes the reward itself as the advantage; set rollout.n to 4 or more"
            )
        progress = TRAINERS[config.algorithm.name](run, resume(run, directory), directory, stop)
        status = "finished" if progress.step >= run.last_step else "stopped"
        return Result(status=status, last_step=progress.step, peak_memory_gb=peak_memory_gb(world.device))


def resume(run: Run, directory: Path) -> Progress:
    """Load the newest complete checkpoint of the directory; without one, start at step 0.

    Raises:
        ConfigError: The checkpoint is of another model or of other data.
    """
    controller = first_controller(run.config)
    steps = complete_checkpoints(directory)
    if not steps:
        return Progress(step=0, controller=controller)
    step = max(steps)
    saved = read_progress(directory, step)
    _check_same(run, saved, step)
    load_checkpoint(directory, step, run.trained, run.world)
    if run.world.is_main:
        say(f"resuming after step {step}")
    return Progress(
        step=step,
        controller=controller.restored(float(saved["kl_coef"])),
        normalizer=RewardNormalizer.restored(saved.get("reward_normalizer")),
        nonfinite_steps=int(saved["nonfinite_steps"]),
        best=_best(run, directory),
    )


def _best(run: Run, directory: Path) -> Best | None:
    """The best step of the attempts before, if it was found by the metric that counts now."""
    best = read_best(directory)
    return best if best is not None and best.metric == run.config.trainer.save_best else None


def _check_same(run: Run, saved: dict[str, object], step: int) -> None:
    now = {"model": dataclasses.asdict(run.config.model), "data": dataclasses.asdict(run.config.data)}
    problems = []
    for group, values in now.items():
        before, current = flatten(saved[group]), flatten(values)
        for key in current:
            if before.get(key) != current[key]:
                message = f"got {current[key]!r}, but the checkpoint of step {step} was made with {before.get(key)!r}"
                hint = "use the same value, or another run directory"
                problems.append(ConfigProblem(path=f"{group}.{key}", message=message, hint=hint))
    if problems:
        raise ConfigError(problems)
