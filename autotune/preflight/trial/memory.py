"""A trial that cannot fit into its GPU is not worth a launch."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.errors import Problem
from autotune.preflight.memory import Estimate, estimate, native_workload, too_large, verl_workload
from autotune.preflight.trial.context import TrialContext


def memory(trial: TrialContext) -> Iterator[Problem]:
    """The estimate against the device."""
    found = estimate_of(trial)
    problem = None if found is None else too_large(found, trial.room)
    if problem is not None:
        yield problem


def estimate_of(trial: TrialContext) -> Estimate | None:
    """What the trial needs on one device; None when its model's sizes are unknown."""
    if trial.backend == "verl":
        work = verl_workload(trial.config)
    else:
        work = native_workload(trial.config, world=trial.ranks, host=trial.room.host)
    return None if work is None else estimate(work, trial.room.bytes)
