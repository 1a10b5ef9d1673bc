"""Which trial wins."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.search.finalists import finalists_of, is_finalist
from autotune.search.types import Trial
from autotune.spec.types import Direction
from autotune.states import TrialState


def is_answer(trial: Trial) -> bool:
    """Whether the trial may be a job's answer: completed, within its constraints, and no fresh run of another one."""
    done = trial.state is TrialState.COMPLETED and trial.value is not None
    return done and trial.feasible and not is_finalist(trial)


def ranked(trials: Iterable[Trial], direction: Direction) -> list[Trial]:
    """The completed trials whose constraints hold, best first, the earlier one of equals; fresh runs are left out."""
    sign = 1 if direction is Direction.MAXIMIZE else -1
    valued = [
        (-sign * trial.value, trial.number, trial) for trial in trials if trial.value is not None and is_answer(trial)
    ]
    return [trial for _, _, trial in sorted(valued, key=lambda item: item[:2])]


def best_of(trials: Iterable[Trial], direction: Direction) -> Trial | None:
    """The winner: the finalist with the best mean, else the best completed trial whose constraints hold."""
    everybody = list(trials)
    order = ranked(everybody, direction)
    if not order:
        return None
    named = {trial.number: trial for trial in order}
    means = [f for f in finalists_of(everybody, direction) if f.mean is not None and f.trial in named]
    return named[means[0].trial] if means else order[0]
