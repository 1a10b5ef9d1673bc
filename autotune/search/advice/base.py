"""What a rule sees of a trial, and what it may advise.

A rule is a pure function of one trial's configuration and curves. It answers nothing unless the numbers are there: a
metric that was never reported, or a parameter that the configuration does not have, makes no evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import TypeAlias

from autotune.search.types import Point
from autotune.spec.types import Direction
from autotune.spec.values import FlatConfig, JsonValue

GUIDE = "the guide to verl's configuration, tuning in three levels"
RANGES = "the verl tuning guide with a deployment case"
LITERATURE = "Schulman et al. 2017 (PPO) and the trainers' issue threads"
FEW = 6
"""With fewer points there is no curve to speak of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A parameter that should be tried at another value."""

    path: str
    before: JsonValue
    after: JsonValue

    def __str__(self) -> str:
        return f"{self.path}: {_shown(self.before)} -> {_shown(self.after)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """What a rule has found.

    Attributes:
        rule: The rule's name.
        finding: One sentence with the numbers of this run.
        numbers: The same numbers for machines.
        changes: What to try, together.
        source: Where the rule comes from.
    """

    rule: str
    finding: str
    numbers: Mapping[str, float]
    changes: tuple[Change, ...]
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One trial.

    Attributes:
        config: Its complete configuration.
        curve: Its points, in step order.
        metric: The objective.
        total_steps: Training steps of a full trial.
    """

    config: FlatConfig
    curve: Sequence[Point]
    metric: str
    direction: Direction
    total_steps: int

    def values(self, metric: str) -> list[float]:
        """The finite values of a metric in step order, those before training left out."""
        found = (point.metrics.get(metric) for point in self.curve if point.step > 0)
        return [value for value in found if value is not None]

    def good(self, metric: str) -> list[float]:
        """The same, with the sign that makes more better."""
        sign = -1.0 if self.direction is Direction.MINIMIZE and metric == self.metric else 1.0
        return [sign * value for value in self.values(metric)]

    def rewards(self) -> list[float]:
        """The training reward, or the objective where the trainer reports none."""
        return self.values("reward/mean") or self.good(self.metric)

    def number(self, path: str) -> float | None:
        """A numeric parameter."""
        value = self.config.get(path)
        return None if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


AdviceRule: TypeAlias = Callable[[Case], Advice | None]


def thirds(values: Sequence[float]) -> tuple[float, float, float]:
    """Means of the first, the middle and the last third."""
    size = max(1, len(values) // 3)
    middle = values[size : len(values) - size] or values
    return fmean(values[:size]), fmean(middle), fmean(values[-size:])


def smooth(values: Sequence[float], width: int = 5) -> list[float]:
    """The mean of each value and the ones before it, at most `width` together."""
    return [fmean(values[max(0, place - width + 1) : place + 1]) for place in range(len(values))]


def noise(values: Sequence[float]) -> float:
    """How far single values lie from their smoothed curve (standard deviation)."""
    return pstdev([value - level for value, level in zip(values, smooth(values), strict=True)])


def tail(values: Sequence[float], share: float = 0.5) -> Sequence[float]:
    """The last part of a curve."""
    return values[int(len(values) * (1 - share)) :]


def rounded(value: float) -> float:
    """A proposal with two significant digits."""
    return float(f"{value:.2g}")


def _shown(value: JsonValue) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
