"""How a trial stands among the others at the same step: what all comparative pruners share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from autotune.search.curves import Curve
from autotune.search.objective import objective_value, recent
from autotune.search.pareto import Vector, positions, ranks
from autotune.search.pruners.base import Sight
from autotune.search.types import Point
from autotune.spec.types import Objective


def sign(objective: Objective) -> int:
    """1 where more is better, -1 where less is; with several objectives scores are places, and more is better."""
    return 1 if objective.also else objective.sign


def about(objective: Objective, metric: str | None) -> Objective:
    """The objective, or objectives, reduced from another metric's curve if one is given."""
    if metric is None or metric == objective.metric:
        return objective
    return Objective(metric=metric, direction=objective.direction, reduce=objective.reduce, smooth=objective.smooth)


def score(objective: Objective, curve: Sequence[Point], until: int | None = None) -> float | None:
    """One objective at a step with its sign turned so that more is better.

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
        return objective.sign * value
    return -math.inf if recent(curve, objective.metric, 1, until) else None


def scores(
    objective: Objective, curves: Mapping[int, Sequence[Point]], until: int, *, ties: bool = False
) -> dict[int, float]:
    """The scores at a step of all who have reached it and reported the metric by then, more is better.

    With several objectives a score says only how the trials stand to each other (``autotune.search.pareto``): minus
    the place in the order of the fronts, or with ``ties`` minus the number of the front.
    """
    if objective.also:
        vectors = {number: vector(objective, curve, until) for number, curve in curves.items()}
        known = {number: values for number, values in vectors.items() if values is not None}
        return ranks(known) if ties else positions(known)
    found = {number: score(objective, curve, until) for number, curve in curves.items()}
    return {number: value for number, value in found.items() if value is not None}


def vector(objective: Objective, curve: Sequence[Point], until: int | None = None) -> Vector | None:
    """The scores of all objectives at a step; ``None`` if one of them has none."""
    values: list[float] = []
    for one in objective.each:
        value = score(one, curve, until)
        if value is None:
            return None
        values.append(value)
    return tuple(values)


def measured(objective: Objective, curve: Sequence[Point], until: int) -> dict[str, float]:
    """The value of every objective at a step, by metric; one that is not finite is left out."""
    found = {one.metric: objective_value(one, curve, until) for one in objective.each}
    return {metric: value for metric, value in found.items() if value is not None}


def protected(sight: Sight, top: int, objective: Objective | None = None, *, among: int = 1) -> bool:
    """Whether the trial is among the best ``top`` of those that reached its step; equals count for the trial.

    With several objectives everybody on the first front is.

    Args:
        sight: What is seen.
        top: How many are protected.
        objective: What decides who is best; that of the job if ``None``.
        among: Trials that must have reached the step, this one included: the best of one has beaten nobody.
    """
    if top == 0:
        return False
    number, objective = sight.trial.number, objective or sight.objective
    if objective.also:
        fronts = scores(objective, {**sight.peers, number: sight.curve}, sight.step, ties=True)
        return _stands(fronts.pop(number, None), fronts.values(), top, among)
    reached = (score(objective, curve, sight.step) for curve in sight.peers.values())
    return _stands(score(objective, sight.curve, sight.step), (one for one in reached if one is not None), top, among)


def _stands(own: float | None, others: Iterable[float], top: int, among: int) -> bool:
    """Whether fewer than ``top`` are better; looks no further than it must, for in a long job they are many."""
    if own is None or own == -math.inf:
        return False
    better, count = 0, 1
    for value in others:
        better, count = better + (value > own), count + 1
        if better >= top:
            return False
    return count >= among
