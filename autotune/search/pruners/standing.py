"""How a trial stands among the others at the same step: what all comparative pruners share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from autotune.search.curves import Curve
from autotune.search.objective import objective_value, recent
from autotune.search.pruners.base import Sight
from autotune.search.types import Point
from autotune.spec.types import Direction, Objective


def sign(objective: Objective) -> int:
    """1 where more is better, -1 where less is."""
    return 1 if objective.direction is Direction.MAXIMIZE else -1


def about(objective: Objective, metric: str | None) -> Objective:
    """The objective, reduced from another metric's curve if one is given."""
    if metric is None or metric == objective.metric:
        return objective
    return Objective(metric=metric, direction=objective.direction, reduce=objective.reduce, smooth=objective.smooth)


def score(objective: Objective, curve: Sequence[Point], until: int | None = None) -> float | None:
    """The objective at a step with its sign turned so that more is better.

    Returns:
        ``-inf`` if the last value was not finite, so that a diverged trial stands last; ``None`` if the curve never
        reported the metric or ends before ``until``.
    """
    if until is not None and (not curve or curve[-1].step < until):
        return None
    if isinstance(curve, Curve) and until is not None:
        return curve.once(
            until,
            (objective.metric, objective.smooth, objective.reduce, objective.direction),
            partial(_score, objective, curve, until),
        )
    return _score(objective, curve, until)


def _score(objective: Objective, curve: Sequence[Point], until: int | None) -> float | None:
    value = objective_value(objective, curve, until)
    if value is not None:
        return sign(objective) * value
    return -math.inf if recent(curve, objective.metric, 1, until) else None


def scores(objective: Objective, curves: Mapping[int, Sequence[Point]], until: int) -> dict[int, float]:
    """The scores at a step of all who have reached it and reported the metric by then."""
    found = {number: score(objective, curve, until) for number, curve in curves.items()}
    return {number: value for number, value in found.items() if value is not None}


def protected(sight: Sight, top: int, objective: Objective | None = None) -> bool:
    """Whether the trial is among the best ``top`` of those that reached its step; equals count for the trial."""
    if top == 0:
        return False
    objective = objective or sight.objective
    own = score(objective, sight.curve, sight.step)
    if own is None or own == -math.inf:
        return False
    return sum(value > own for value in scores(objective, sight.peers, sight.step).values()) < top
