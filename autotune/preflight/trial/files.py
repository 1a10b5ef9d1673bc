"""The files that a trial reads: whether they are there. What is in them is tried by the probe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from autotune.errors import Problem
from autotune.preflight.trial.context import TrialContext

_NATIVE = ("data.train_file", "data.eval_file")
_VERL = ("data.train_files", "data.val_files", "reward.custom_reward_function.path")


def files(trial: TrialContext) -> Iterator[Problem]:
    """Data files, and verl's file with the reward function."""
    if not trial.here:
        return
    for key, path in _named(trial):
        if _judged(trial, path) and not Path(path).exists():
            yield _missing(key, path)


def paths(trial: TrialContext) -> list[str]:
    """The files that the configuration names."""
    return [path for _, path in _named(trial)]


def data_files(trial: TrialContext) -> list[str]:
    """Those of them that hold data."""
    return [path for key, path in _named(trial) if key.startswith("data.")]


def _named(trial: TrialContext) -> Iterator[tuple[str, str]]:
    for key in _NATIVE if trial.backend == "native" else _VERL:
        value = trial.config.get(key)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, str) and path:
                yield key, path


def _judged(trial: TrialContext, path: str) -> bool:
    """Whether the path means the same here and in the trial: verl starts where its section says, with its own home."""
    return "://" not in path and (trial.backend == "native" or Path(path).is_absolute())


def _missing(key: str, path: str) -> Problem:
    hint = "Write an absolute path: a trial runs in a directory of its own."
    if Path(path).is_absolute():
        hint = "Correct the path, or make the file."
    return Problem(message=f"there is no file '{path}'.", hint=hint, path=key)
