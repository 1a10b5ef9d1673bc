"""Compares a trial with the others at the same step: the percentile rule and its special case, the median rule.

Golovin et al. 2017, "Google Vizier", section 3.2.2: stop a trial whose best value by step ``s`` is worse than the
median of the others at ``s``. The others count with their smoothed value at that step, as in Optuna's
``PercentilePruner``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from autotune.search.objective import moving_mean, recent, series
from autotune.search.pruners.base import Sight
from autotune.search.pruners.standing import about, measured, protected, scores, sign
from autotune.search.types import Point, Reason
from autotune.spec.types import Objective


@dataclass(frozen=True, kw_only=True, slots=True)
class Percentile:
    """Stops a trial that is for ``patience`` reports in a row not among the best ``keep`` percent at its step.

    With ``b(s)`` = the trial's best smoothed value up to step ``s`` and ``V(s)`` = the objectives at ``s`` of all
    others that have reached it, the trial is behind at ``s`` if ``b(s)`` is strictly worse than the ``100 - keep``
    percentile of ``V(s)`` (linear interpolation). Its best value counts, not its last, so one bad evaluation stops
    nobody. The default configuration always passes.

    Attributes:
        keep: Percent of the trials that go on.
        min_steps: Steps before this one are forgiven.
        patience: Consecutive reports behind the others that are needed.
        min_trials: Others that must have reached the step.
        protect_top: What is among this many best at its step is never stopped.
        metric: The curve that is compared; the objective's own if ``None``.
    """

    name: ClassVar[str] = "percentile"

    keep: float
    min_steps: int = 10
    patience: int = 2
    min_trials: int = 5
    protect_top: int = 3
    metric: str | None = None

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to stop the trial, or ``None`` to let it go on."""
        return judge(self, self.name, self.keep, sight)


@dataclass(frozen=True, kw_only=True, slots=True)
class Median:
    """Stops a trial whose best value is for ``patience`` reports in a row worse than the median of the others.

    Attributes:
        min_steps: Steps before this one are forgiven.
        patience: Consecutive reports behind the others that are needed.
        min_trials: Others that must have reached the step.
        protect_top: What is among this many best at its step is never stopped.
        metric: The curve that is compared; the objective's own if ``None``.
    """

    name: ClassVar[str] = "median"

    min_steps: int = 10
    patience: int = 2
    min_trials: int = 5
    protect_top: int = 3
    metric: str | None = None

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to stop the trial, or ``None`` to let it go on."""
        return judge(self, self.name, 50.0, sight)


def judge(rule: Percentile | Median, name: str, keep: float, sight: Sight) -> Reason | None:
    """The percentile rule."""
    objective = about(sight.objective, rule.metric)
    last = recent(sight.curve, objective.metric, rule.patience)
    reports = [step for step, _ in last if step >= rule.min_steps]
    # At the last step nothing is left to save.
    if not sight.compared or sight.step >= sight.total_steps:
        return None
    if len(reports) < rule.patience or reports[-1] != sight.step:
        return None
    own = bar = 0.0
    others: dict[int, float] = {}
    for step in reports:
        own, others = _standing(objective, sight, step)
        if len(others) < rule.min_trials:
            return None
        bar = percentile(list(others.values()), 100.0 - keep)
        if not own < bar:
            return None
    if protected(sight, rule.protect_top, objective):
        return None
    if objective.also:
        return _by_fronts(rule, name, keep, objective, sight, own, others)
    turn = sign(objective)
    numbers = {"keep": keep, "reached": float(len(others)), "patience": float(rule.patience), "step": float(sight.step)}
    numbers |= {key: turn * value for key, value in (("value", own), ("threshold", bar)) if math.isfinite(value)}
    best = f"{turn * own:.4g}" if math.isfinite(own) else "not finite"
    return Reason(
        pruner=name,
        text=(
            f"{objective.metric} was at best {best} by step {sight.step}, for {rule.patience} reports not among the "
            f"best {keep:g} % of {len(others)} others there (needed {turn * bar:.4g})"
        ),
        numbers=numbers,
    )


def _standing(objective: Objective, sight: Sight, step: int) -> tuple[float, dict[int, float]]:
    """The trial's own best value by a step and the others' values there; of several objectives the places there."""
    if not objective.also:
        return _best_so_far(objective, sight.curve, step), scores(objective, sight.peers, step)
    number = sight.trial.number
    reached = scores(objective, {**sight.peers, number: sight.curve}, step, ties=True)
    own = reached.pop(number, math.inf)  # an objective that was not reported yet is nothing to stop for
    return own, reached


def _by_fronts(
    rule: Percentile | Median,
    name: str,
    keep: float,
    objective: Objective,
    sight: Sight,
    own: float,
    others: Mapping[int, float],
) -> Reason:
    """The reason with several objectives, where a score is a place."""
    values = measured(objective, sight.curve, sight.step)
    rank = 1 + sum(value > own for value in others.values())
    shown = ", ".join(f"{metric} {value:.4g}" for metric, value in values.items()) or "what is not finite"
    return Reason(
        pruner=name,
        text=(
            f"{shown} at step {sight.step} is behind {rank - 1} of {len(others)} others by fronts of "
            f"{len(objective.each)} objectives, for {rule.patience} reports not among the best {keep:g} %"
        ),
        numbers={
            **values,
            "keep": keep,
            "rank": float(rank),
            "reached": float(len(others)),
            "patience": float(rule.patience),
            "step": float(sight.step),
        },
    )


def percentile(values: Sequence[float], percent: float) -> float:
    """The percentile with linear interpolation, as numpy's default; ``-inf`` where it lies beside an ``-inf``."""
    ranked = sorted(values)
    place = (len(ranked) - 1) * percent / 100.0
    low, high = ranked[math.floor(place)], ranked[math.ceil(place)]
    return low if low == high or not math.isfinite(low) else low + (high - low) * (place - math.floor(place))


def _best_so_far(objective: Objective, curve: Sequence[Point], until: int) -> float:
    """The best smoothed value up to a step, signed so that more is better; ``-inf`` if none was finite."""
    values = [sign(objective) * value for _, value in series(curve, objective.metric, until) if value is not None]
    return max(moving_mean(values, objective.smooth), default=-math.inf)
