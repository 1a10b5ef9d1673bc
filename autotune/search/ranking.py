"""Which trial wins, and with several objectives which ones nobody beats."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.search.finalists import finalists_of, is_finalist
from autotune.search.pareto import Vector, fronts, order
from autotune.search.types import Trial
from autotune.spec.types import Objective
from autotune.states import TrialState


def is_answer(trial: Trial) -> bool:
    """Whether the trial may be a job's answer: completed, within its constraints, and no fresh run of another one."""
    done = trial.state is TrialState.COMPLETED and trial.value is not None
    return done and trial.feasible and not is_finalist(trial)


def answer(objective: Objective, trial: Trial) -> Vector | None:
    """A trial's objectives, each turned so that more is better; ``None`` if one of them is missing."""
    values = trial.values if objective.also else {objective.metric: trial.value}
    known = [(one.sign, values.get(one.metric)) for one in objective.each]
    found = tuple(sign * value for sign, value in known if value is not None)
    return found if len(found) == len(known) else None


def ranked(trials: Iterable[Trial], objective: Objective) -> list[Trial]:
    """The completed trials whose constraints hold, best first, the earlier one of equals; fresh runs are left out.

    With several objectives front by front, the compromise of each first (``autotune.search.pareto``).
    """
    able, vectors = _answers(trials, objective)
    if objective.also:
        return [able[number] for number in order(vectors)]
    return [able[number] for number in sorted(able, key=lambda number: (-vectors[number][0], number))]


def front(trials: Iterable[Trial], objective: Objective) -> list[Trial]:
    """The completed trials within their constraints that nobody beats in everything; with one objective the best."""
    if not objective.also:
        return ranked(trials, objective)[:1]
    able, vectors = _answers(trials, objective)
    return [able[number] for number in next(iter(fronts(vectors)), [])]


def best_of(trials: Iterable[Trial], objective: Objective) -> Trial | None:
    """The winner: the finalist with the best mean, else the best completed trial whose constraints hold.

    With several objectives the compromise on the front.
    """
    everybody = list(trials)
    ranking = ranked(everybody, objective)
    if not ranking:
        return None
    named = {trial.number: trial for trial in ranking}
    means = [f for f in finalists_of(everybody, objective) if f.mean is not None and f.trial in named]
    return named[means[0].trial] if means else ranking[0]


def _answers(trials: Iterable[Trial], objective: Objective) -> tuple[dict[int, Trial], dict[int, Vector]]:
    able = {trial.number: trial for trial in trials if is_answer(trial)}
    known = {number: answer(objective, trial) for number, trial in able.items()}
    vectors = {number: vector for number, vector in known.items() if vector is not None}
    return {number: able[number] for number in vectors}, vectors
