"""Ranks, sharding and the rollout engine's devices have to fit together, or a run hangs at its start."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.backends.config_file import nested
from autotune.errors import Problem
from autotune.preflight.trial.context import TrialContext
from trainer.config import ConfigError, build, world_size_problems


def devices(trial: TrialContext) -> Iterator[Problem]:
    """What only the number of GPUs can tell about a configuration."""
    if trial.backend != "native":
        return  # verl's own rules know its number of GPUs
    if trial.gpus < 1 and trial.config.get("system.device") == "cuda":
        yield Problem(
            message=f"got 'cuda', but resources.gpus = {trial.gpus:g} gives the trial no GPU.",
            hint="Set resources.gpus: 1 in the space file, or system.device: auto.",
            path="system.device",
        )
    try:
        config = build(nested(trial.config))
    except ConfigError:
        return  # the backend's own check has named its problems
    for problem in world_size_problems(config, trial.ranks):
        yield Problem(message=f"{problem.message}.", hint=f"{problem.hint}.", path=problem.path)
