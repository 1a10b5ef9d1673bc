"""How strongly each parameter goes together with the objective and with KL, from ranks alone.

The live page works out the same (``dashboards/web/js/influence.js``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt

from autotune.states import TrialState
from autotune.views import TrialView

FEWEST = 8
"""With fewer trials chance alone reaches almost any level."""
_KL = "kl/actor_ref"


@dataclass(frozen=True, kw_only=True, slots=True)
class Association:
    """How strongly settings and results go together.

    Attributes:
        strength: Spearman's rank correlation for numbers; for choices the correlation ratio of the ranks.
        signed: Whether the strength has a direction.
        sure: Whether chance reaches this strength in about one of twenty searches at most.
        trials: What it was worked out from.
    """

    strength: float
    signed: bool
    sure: bool
    trials: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Importance:
    """One searched parameter; ``None`` where it cannot be said."""

    path: str
    objective: Association | None
    kl: Association | None


def importance(trials: Sequence[TrialView]) -> list[Importance]:
    """A row for each parameter of which something can be said, the strongest first."""
    paths = dict.fromkeys(path for trial in trials for path in trial.params)
    rows = [
        Importance(path=path, objective=_about(trials, path, _objective), kl=_about(trials, path, _kl))
        for path in paths
    ]
    return sorted((row for row in rows if row.objective or row.kl), key=_strongest, reverse=True)


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, ties sharing the mean of theirs."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    found = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for place in range(start, end):
            found[order[place]] = (start + end + 1) / 2
        start = end
    return found


def association(settings: Sequence[object], results: Sequence[float]) -> Association | None:
    """How strongly two columns go together; ``None`` when it cannot be said."""
    count = len(settings)
    if count < FEWEST or len({repr(one) for one in settings}) < 2 or len(set(results)) < 2:
        return None
    middle, heights = (count + 1) / 2, ranks(results)
    numbers = [one for one in settings if isinstance(one, (int, float)) and not isinstance(one, bool)]
    signed, freedom = len(numbers) == count, 1
    if signed:
        places = ranks(numbers)
        shared = sum((x - middle) * (y - middle) for x, y in zip(places, heights, strict=True))
        strength = shared / sqrt(_spread(places, middle) * _spread(heights, middle))
    else:
        groups: dict[str, list[float]] = defaultdict(list)
        for one, height in zip(settings, heights, strict=True):
            groups[repr(one)].append(height - middle)
        freedom = len(groups) - 1
        if freedom > count / 4:  # almost every trial its own choice explains everything and says nothing
            return None
        strength = sqrt(sum(sum(group) ** 2 / len(group) for group in groups.values()) / _spread(heights, middle))
    # (count - 1) strength^2 is nearly chi-squared with this many degrees of freedom when nothing goes together.
    chance = (freedom + 2 * sqrt(2 * freedom)) / (count - 1)
    return Association(strength=strength, signed=signed, sure=strength**2 > chance, trials=count)


def _about(trials: Sequence[TrialView], path: str, read: Callable[[TrialView], float | None]) -> Association | None:
    pairs = [(trial.params[path], read(trial)) for trial in trials if trial.params.get(path) is not None]
    known = [(setting, result) for setting, result in pairs if result is not None and isfinite(result)]
    return association([setting for setting, _ in known], [result for _, result in known])


def _objective(trial: TrialView) -> float | None:
    return trial.value


def _kl(trial: TrialView) -> float | None:
    return None if trial.state == TrialState.RUNNING else trial.metrics.get(_KL)


def _spread(values: Sequence[float], middle: float) -> float:
    return sum((value - middle) ** 2 for value in values)


def _strongest(row: Importance) -> float:
    return max(abs(one.strength) if one else 0.0 for one in (row.objective, row.kl))
