"""Asynchronous successive halving, stopping variant.

Li et al. 2018, "A System for Massively Parallel Hyperparameter Tuning", arXiv:1810.05934, Algorithm 2. The paper pauses
trials at a rung and promotes them later; here a trial is judged once, when it reaches the rung, against everybody who
reached it before, and either goes on or ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from autotune.search.objective import objective_value
from autotune.search.pruners.base import Sight
from autotune.search.types import Point, Reason
from autotune.spec.types import Direction, Objective


@dataclass(frozen=True, kw_only=True, slots=True)
class Asha:
    """Stops a trial that is not among the best ``1/reduction_factor`` of those that reached the same rung.

    The rungs are ``min_steps * reduction_factor ** k`` below the full length. As long as fewer than
    ``reduction_factor`` trials have reached a rung, everybody passes: one curve is no comparison. The default
    configuration always passes: its whole curve is the yardstick of the job's answer.

    Attributes:
        min_steps: The first rung, in training steps.
        reduction_factor: How much smaller each rung is than the one before.
        metric: The curve that is compared; the objective's own if ``None``.
    """

    name: ClassVar[str] = "asha"

    min_steps: int
    reduction_factor: float = 3.0
    metric: str | None = None

    def rungs(self, total_steps: int) -> list[int]:
        """The steps at which trials are compared, all below ``total_steps``."""
        rungs: list[int] = []
        step = float(self.min_steps)
        while round(step) < total_steps:
            rungs.append(round(step))
            step *= self.reduction_factor
        return rungs

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to stop the trial, or ``None`` to let it go on."""
        if sight.trial.source == "default":
            return None
        rung = self._rung_just_reached(sight)
        if rung is None:
            return None
        objective = _about(sight.objective, self.metric)
        own = objective_value(objective, sight.curve)
        peers = [_value_at(objective, curve, rung) for curve in sight.peers.values()]
        values = [value for value in peers if value is not None]
        reached = len(values) + 1
        if own is None or reached < self.reduction_factor:
            return None
        sign = 1 if objective.direction is Direction.MAXIMIZE else -1
        rank = 1 + sum(sign * value > sign * own for value in values)
        keep = max(1, int(reached / self.reduction_factor))
        if rank <= keep:
            return None
        threshold = sorted(values, key=lambda value: -sign * value)[keep - 1]
        return Reason(
            pruner=self.name,
            text=(
                f"{objective.metric} {own:.4g} at step {sight.step} is rank {rank} of {reached} at rung {rung}; "
                f"the best {keep} go on (needed {threshold:.4g})"
            ),
            numbers={"rung": rung, "value": own, "rank": rank, "reached": reached, "threshold": threshold},
        )

    def _rung_just_reached(self, sight: Sight) -> int | None:
        steps = [point.step for point in sight.curve]
        before = steps[-2] if len(steps) > 1 else -1
        passed = [rung for rung in self.rungs(sight.total_steps) if before < rung <= sight.step]
        return passed[-1] if passed else None


def _about(objective: Objective, metric: str | None) -> Objective:
    if metric is None or metric == objective.metric:
        return objective
    return Objective(metric=metric, direction=objective.direction, reduce=objective.reduce, smooth=objective.smooth)


def _value_at(objective: Objective, curve: Sequence[Point], rung: int) -> float | None:
    """A peer's value when it passed the rung; ``None`` if it never got there."""
    if not curve or curve[-1].step < rung:
        return None
    return objective_value(objective, curve, until=rung)
