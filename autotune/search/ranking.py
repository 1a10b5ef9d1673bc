"""Which trial wins."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.search.objective import better
from autotune.search.types import Trial
from autotune.spec.types import Direction
from autotune.states import TrialState


def best_of(trials: Iterable[Trial], direction: Direction) -> Trial | None:
    """The best completed trial whose constraints hold; the earlier one of equals."""
    best: Trial | None = None
    for trial in sorted(trials, key=lambda trial: trial.number):
        if trial.state is not TrialState.COMPLETED or trial.value is None or not trial.feasible:
            continue
        if best is None or best.value is None or better(direction, trial.value, best.value):
            best = trial
    return best
