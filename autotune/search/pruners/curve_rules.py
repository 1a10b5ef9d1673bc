"""Rules that look at one trial alone: KL out of bounds, reward lost, values that are not finite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autotune.search.objective import moving_mean, recent, series
from autotune.search.pruners.base import Sight
from autotune.search.pruners.standing import protected
from autotune.search.types import Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class KlCeiling:
    """Stops a trial whose KL to the reference stays above a ceiling.

    Attributes:
        above: The ceiling, in nats per token.
        patience: Consecutive reports above it that are needed.
        metric: The KL curve.
        min_steps: Steps before this one are forgiven.
    """

    name: ClassVar[str] = "kl_ceiling"

    above: float
    patience: int = 3
    metric: str = "kl/actor_ref"
    min_steps: int = 1

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to stop the trial, or ``None`` to let it go on."""
        reported = recent(sight.curve, self.metric, self.patience)
        last = [value for step, value in reported if step >= self.min_steps]
        high = [value for value in last if value is not None and value > self.above]
        if len(high) < self.patience:
            return None
        return Reason(
            pruner=self.name,
            text=(
                f"{self.metric} was above {self.above:g} for {self.patience} reports in a row, "
                f"{high[-1]:.4g} at step {sight.step}"
            ),
            numbers={"above": self.above, "value": high[-1], "patience": self.patience, "step": sight.step},
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RewardCollapse:
    """Stops a trial that has lost a good part of the best reward it ever had.

    What still stands among the best ``protect_top`` by the job's objective goes on: what it has left is more than the
    others have. A trial that nobody can be compared with yet is not protected.

    Attributes:
        drop: Part of the best smoothed reward that must be lost, 0 to 1.
        patience: Consecutive reports at that low that are needed.
        metric: The reward curve.
        smooth: Reports that are averaged before anything is compared.
        min_steps: Steps before this one are forgiven.
        protect_top: What is among this many best at its step is never stopped, if more trials than these got there.
    """

    name: ClassVar[str] = "reward_collapse"

    drop: float
    patience: int = 5
    metric: str = "reward/mean"
    smooth: int = 3
    min_steps: int = 5
    protect_top: int = 3

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to stop the trial, or ``None`` to let it go on."""
        values = [value for _, value in series(sight.curve, self.metric) if value is not None]
        if sight.step < self.min_steps or len(values) <= self.patience:
            return None
        smooth = moving_mean(values, self.smooth)
        best = max(smooth[: -self.patience])
        floor = best - self.drop * abs(best)
        if best == 0 or any(value > floor for value in smooth[-self.patience :]):
            return None
        if protected(sight, self.protect_top, among=self.protect_top + 1):
            return None
        return Reason(
            pruner=self.name,
            text=(
                f"{self.metric} fell from {best:.4g} to {smooth[-1]:.4g} and stayed below {floor:.4g} "
                f"for {self.patience} reports, until step {sight.step}"
            ),
            numbers={"best": best, "value": smooth[-1], "floor": floor, "drop": self.drop, "step": sight.step},
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class NotFinite:
    """Stops a trial whose metrics are not finite; the trial counts as infeasible.

    Attributes:
        patience: Consecutive steps with such a value that are needed.
    """

    name: ClassVar[str] = "not_finite"

    patience: int = 1

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to stop the trial, or ``None`` to let it go on."""
        last = sight.curve[-self.patience :]
        broken = [sorted(name for name, value in point.metrics.items() if value is None) for point in last]
        if len(broken) < self.patience or not all(broken):
            return None
        return Reason(
            pruner=self.name,
            text=f"{', '.join(broken[-1][:3])} not finite at step {sight.step}",
            numbers={"step": sight.step, "metrics": len(broken[-1]), "patience": self.patience},
        )
