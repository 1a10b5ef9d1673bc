"""Smoothed tails and beginnings of a curve: what the rules that look at one trial alone share."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from autotune.search.objective import moving_mean, recent, series
from autotune.search.types import Point


def tail(
    curve: Sequence[Point], metric: str, *, count: int, smooth: int = 1, min_steps: int = 1
) -> list[tuple[int, float]] | None:
    """The last ``count`` values of a metric, each the mean of itself and the ``smooth - 1`` reports before it.

    Values that were not finite are left out. Reports before ``min_steps`` enter a mean but are not judged.

    Returns:
        (step, mean) in step order; ``None`` while there are fewer.
    """
    reported = recent(curve, metric, 2 * (count + smooth))
    finite = [(step, value) for step, value in reported if value is not None]
    if len(finite) < count + smooth - 1:
        finite = [(step, value) for step, value in series(curve, metric) if value is not None]
    means = moving_mean([value for _, value in finite], smooth)
    judged = [(step, mean) for (step, _), mean in zip(finite, means, strict=True) if step >= min_steps][-count:]
    return judged if len(judged) == count and len(finite) >= count + smooth - 1 else None


def beginning(curve: Sequence[Point], metric: str, count: int) -> float | None:
    """The mean of the first ``count`` finite values of a metric; ``None`` while there are fewer."""
    first: list[float] = []
    for point in curve:
        value = point.metrics.get(metric)
        if value is not None:
            first.append(value)
            if len(first) == count:
                return fmean(first)
    return None


def slope(points: Sequence[tuple[int, float]]) -> float:
    """The least-squares slope of ``(step, value)`` pairs at two different steps at least, per step."""
    at, height = fmean(step for step, _ in points), fmean(value for _, value in points)
    spread = sum((step - at) ** 2 for step, _ in points)
    return sum((step - at) * (value - height) for step, value in points) / spread
