"""The best configurations run again with fresh seeds, and what can be said after that.

The best of many noisy results is partly luck, and the seed on which a configuration was chosen flatters it (Eimer et
al. 2023, "Hyperparameters in Reinforcement Learning and How To Tune Them", arXiv:2306.01324: tuning and test seeds
must differ). So the run that made a trial a finalist does not count: the winner has the best mean over fresh seeds
only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from autotune.search.confidence import difference, half_width
from autotune.search.pareto import fronts, order
from autotune.search.seeds import child_seed
from autotune.search.types import Trial
from autotune.spec.types import Objective
from autotune.states import TRIAL_ENDS, TrialState

_PREFIX = "finalist-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finalist:
    """A configuration and its runs with fresh seeds.

    Attributes:
        trial: Number of the trial that made it a finalist.
        values: Objectives of the fresh runs that completed within the constraints.
        lost: Fresh runs that ended otherwise.
        mean: Mean of the values; ``None`` without any.
        half: Half of the mean's 95 % interval; ``None`` for fewer than two values.
        means: With several objectives, each one's mean and half by its metric.
    """

    trial: int
    values: tuple[float, ...]
    lost: int
    mean: float | None
    half: float | None
    means: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)


def is_finalist(trial: Trial) -> bool:
    """Whether the trial is a fresh run of an earlier one."""
    return trial.source.startswith(_PREFIX)


def source_of(number: int) -> str:
    """What a fresh run of this trial has for its source."""
    return f"{_PREFIX}{number}"


def fresh_seed(seed: int, number: int, run: int) -> int:
    """The seed of a trial's fresh run, counted from 1: the same after a restart, below 2**31."""
    return child_seed(seed, "finalist", number, run) % 2**31


def fresh_runs(best: Sequence[Trial], seeds: int, seed: int) -> Iterator[tuple[Trial, int, int]]:
    """The fresh runs of the best trials as (trial, run, seed).

    First one of each, then the second of each, so that a budget that ends early ends it evenly.
    """
    for run in range(1, seeds + 1):
        for trial in best:
            yield trial, run, fresh_seed(seed, trial.number, run)


def finalists_of(trials: Iterable[Trial], objective: Objective) -> tuple[Finalist, ...]:
    """The finalists, best first; one that has lost a run stands behind all that have not.

    With several objectives in the order of the fronts of their means.
    """
    runs: dict[int, list[Trial]] = {}
    for trial in sorted(trials, key=lambda trial: trial.number):
        if is_finalist(trial):
            runs.setdefault(int(trial.source.removeprefix(_PREFIX)), []).append(trial)
    found = [_finalist(number, fresh, objective) for number, fresh in runs.items()]
    vectors = {
        one.trial: tuple(goal.sign * one.means[goal.metric][0] for goal in objective.each)
        for one in found
        if objective.also and one.mean is not None
    }
    place = {number: float(place) for place, number in enumerate(order(vectors))}

    def key(one: Finalist) -> tuple[bool, int, float]:
        if one.mean is None:
            return True, one.lost, 0.0
        return False, one.lost, place[one.trial] if objective.also else -objective.sign * one.mean

    return tuple(sorted(found, key=key))


def finding(finalists: tuple[Finalist, ...], metric: str) -> str:
    """What the fresh runs say, in plain words; empty without finalists that completed."""
    measured = [finalist for finalist in finalists if finalist.mean is not None]
    if not measured:
        return ""
    first = measured[0]
    text = f"Trial {first.trial} wins with a mean {metric} of {_with_interval(first)} over {_runs(first)}."
    if len(measured) == 1:
        return text
    second = measured[1]
    if second.lost > first.lost:
        return f"{text} Trial {second.trial} is second: {second.lost} of its fresh runs did not complete."
    gap = difference(first.values, second.values)
    if gap is None:
        return f"{text} With fewer than two seeds each, nothing can be said about its lead over trial {second.trial}."
    ahead, half = abs(gap[0]), gap[1]
    lead = f"{text} It leads trial {second.trial} ({_with_interval(second)}) by {ahead:.3g}"
    if ahead <= half:
        return f"{lead}, which is within noise (the 95 % interval of the difference is +-{half:.3g}): take either."
    return f"{lead}, more than noise (the 95 % interval of the difference is +-{half:.3g})."


def finding_of_front(finalists: tuple[Finalist, ...], objective: Objective) -> str:
    """What the fresh runs say of several objectives, in plain words; empty without finalists that completed."""
    measured = {one.trial: one for one in finalists if one.means}
    if not measured:
        return ""
    vectors = {
        number: tuple(goal.sign * one.means[goal.metric][0] for goal in objective.each)
        for number, one in measured.items()
    }
    ahead = fronts(vectors)[0]
    told = []
    for number in ahead:
        means = measured[number].means
        said = ", ".join(f"{goal.metric} {_interval(*means[goal.metric])}" for goal in objective.each)
        told.append(f"trial {number} ({said})")
    runs = _runs(measured[ahead[0]])
    return f"By the means over {runs} {len(ahead)} of {len(measured)} finalists stay on the front: {'; '.join(told)}."


def _finalist(number: int, fresh: list[Trial], objective: Objective) -> Finalist:
    good = [t for t in fresh if t.state is TrialState.COMPLETED and t.value is not None and t.feasible]
    values = tuple(trial.value for trial in good if trial.value is not None)
    lost = sum(trial.state in TRIAL_ENDS and trial not in good for trial in fresh)
    return Finalist(
        trial=number,
        values=values,
        lost=lost,
        mean=fmean(values) if values else None,
        half=half_width(values),
        means=_means(good, objective) if objective.also and good else {},
    )


def _means(good: Sequence[Trial], objective: Objective) -> dict[str, tuple[float, float | None]]:
    columns = {goal.metric: [trial.values[goal.metric] for trial in good] for goal in objective.each}
    return {metric: (fmean(values), half_width(values)) for metric, values in columns.items()}


def _interval(mean: float, half: float | None) -> str:
    return f"{mean:.4g}" + ("" if half is None else f" +-{half:.2g}")


def _with_interval(finalist: Finalist) -> str:
    return _interval(finalist.mean or 0.0, finalist.half)


def _runs(finalist: Finalist) -> str:
    seeds = "1 fresh seed" if len(finalist.values) == 1 else f"{len(finalist.values)} fresh seeds"
    return seeds if not finalist.lost else f"{seeds} ({finalist.lost} more did not complete)"
