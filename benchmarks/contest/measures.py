"""From what searches found to figures: compute to the target, regret over compute, means with their confidence."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from statistics import fmean

from contest.meter import Found

DRAWS = 2000
"""Bootstrap samples."""

Interval = tuple[float, float]


def steps_to(found: Sequence[Found], target: float, cap: int) -> tuple[int, bool]:
    """Training steps spent until a full trial reached the target; the cap when none did, and whether one did."""
    for one in found:
        if one.value >= target:
            return one.steps, True
    return cap, False


def seconds_to(found: Sequence[Found], target: float, spent: float) -> float:
    """As `steps_to`, in recorded processor seconds; all that was spent when nothing reached the target."""
    return next((one.seconds for one in found if one.value >= target), spent)


def regret_at(found: Sequence[Found], best: float, start: float, steps: Sequence[int]) -> list[float]:
    """How far the best full trial so far is from the best known, at each of some amounts of compute.

    Before the first full trial there is the untrained model.
    """
    return [best - max([start, *(one.value for one in found if one.steps <= until)]) for until in steps]


def area(regrets: Sequence[float]) -> float:
    """The mean regret over the amounts of compute."""
    return fmean(regrets)


def mean_interval(values: Sequence[float], seed: int = 0) -> tuple[float, Interval]:
    """The mean with its 95 % bootstrap interval."""
    return fmean(values), bootstrap(lambda rows: fmean(values[row] for row in rows), len(values), seed)


def ratio_interval(ours: Sequence[float], theirs: Sequence[float], seed: int = 0) -> tuple[float, Interval]:
    """The ratio of the means with its 95 % bootstrap interval; the two lists belong to the same seeds."""

    def ratio(rows: Sequence[int]) -> float:
        return fmean(ours[row] for row in rows) / fmean(theirs[row] for row in rows)

    return ratio(range(len(ours))), bootstrap(ratio, len(ours), seed)


def bootstrap(statistic: Callable[[Sequence[int]], float], count: int, seed: int) -> Interval:
    """The 95 % percentile interval of a statistic over resampled rows."""
    rng = random.Random(seed)
    drawn = sorted(statistic([rng.randrange(count) for _ in range(count)]) for _ in range(DRAWS))
    return drawn[math.floor(0.025 * DRAWS)], drawn[math.ceil(0.975 * DRAWS) - 1]
