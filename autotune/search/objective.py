"""From a curve to one number: the objective's value, and how far each constraint is from holding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from autotune.search.curves import Curve
from autotune.search.types import Point
from autotune.spec.types import Constraint, Direction, Objective, Reduce


def series(curve: Sequence[Point], metric: str, until: int | None = None) -> list[tuple[int, float | None]]:
    """The steps at which a metric was reported, with its values.

    Args:
        curve: Points in step order.
        metric: Metric name.
        until: Ignore later steps; ``None`` = take all.

    Returns:
        (step, value) in step order; the value is ``None`` where it was not finite. Steps that did not report the metric
        (an evaluation happens only now and then) are left out.
    """
    if isinstance(curve, Curve):
        steps, values, count = curve.column(metric, until)
        return list(zip(steps[:count], values[:count], strict=True))
    return [
        (point.step, point.metrics[metric])
        for point in curve
        if metric in point.metrics and (until is None or point.step <= until)
    ]


def recent(curve: Sequence[Point], metric: str, count: int, until: int | None = None) -> list[tuple[int, float | None]]:
    """The last ``count`` reports of a metric, as ``series`` has them."""
    if isinstance(curve, Curve):
        steps, values, stop = curve.column(metric, until)
        start = max(0, stop - count)
        return list(zip(steps[start:stop], values[start:stop], strict=True))
    return series(curve, metric, until)[-count:]


def moving_mean(values: Sequence[float], width: int) -> list[float]:
    """Mean of the last ``width`` values at each place; shorter windows at the beginning."""
    return [fmean(values[max(0, end - width) : end]) for end in range(1, len(values) + 1)]


def objective_value(objective: Objective, curve: Sequence[Point], until: int | None = None) -> float | None:
    """Reduces a curve to the objective's value.

    Returns:
        The value, or ``None`` if the metric was never reported or its last value was not finite: a diverged trial has
        no objective, however good it once was.
    """
    last = recent(curve, objective.metric, objective.smooth, until)
    if not last or last[-1][1] is None:
        return None
    finite = [value for _, value in last if value is not None]
    if objective.reduce is Reduce.LAST and len(finite) == objective.smooth:
        return fmean(finite)
    values = series(curve, objective.metric, until)
    smooth = moving_mean([value for _, value in values if value is not None], objective.smooth)
    match objective.reduce:
        case Reduce.LAST:
            return smooth[-1]
        case Reduce.MAX:
            return max(smooth)
        case Reduce.MIN:
            return min(smooth)
        case Reduce.MEAN:
            return fmean(smooth)
        case Reduce.AREA:
            finite_steps = [step for step, value in values if value is not None]
            return _area(list(zip(finite_steps, smooth, strict=True)))


def objective_values(objective: Objective, curve: Sequence[Point], until: int | None = None) -> dict[str, float] | None:
    """The value of every objective by metric; ``None`` if one of them has none."""
    found = {one.metric: objective_value(one, curve, until) for one in objective.each}
    values = {metric: value for metric, value in found.items() if value is not None}
    return values if len(values) == len(found) else None


def _area(values: Sequence[tuple[int, float | None]]) -> float:
    """The mean of a curve over its steps, by trapezoids between its finite values."""
    finite = [(step, value) for step, value in values if value is not None]
    span = finite[-1][0] - finite[0][0]
    if span == 0:
        return fmean(value for _, value in finite)
    return sum((after - before) * (a + b) / 2 for (before, a), (after, b) in pairwise(finite)) / span


def violations(
    constraints: Sequence[Constraint], curve: Sequence[Point], smooth: int = 5, until: int | None = None
) -> Mapping[str, float]:
    """How far each constraint is from holding at the end of a curve, or at the step ``until``.

    A single noisy step must not decide, so the mean of the last ``smooth`` reported values counts.

    Returns:
        Constraint text -> violation; <= 0 holds. A constraint whose metric was never reported is left out.
    """
    found: dict[str, float] = {}
    for constraint in constraints:
        values = [value for _, value in series(curve, constraint.metric, until) if value is not None]
        if values:
            found[constraint.text] = constraint.violation(fmean(values[-smooth:]))
    return found


def better(direction: Direction, first: float, second: float) -> bool:
    """Whether ``first`` is strictly better than ``second``."""
    return first > second if direction is Direction.MAXIMIZE else first < second
