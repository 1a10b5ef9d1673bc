"""Stops a trial that has nothing more to gain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from autotune.search.objective import moving_mean, series
from autotune.search.pruners.base import Sight
from autotune.search.pruners.standing import about, protected, sign
from autotune.search.types import Reason
from autotune.spec.types import Objective


@dataclass(frozen=True, kw_only=True, slots=True)
class Plateau:
    """Stops a trial whose smoothed objective has not risen for ``patience`` reports and that is not among the best.

    With ``m(t)`` the mean of the last ``smooth`` reports and ``B(t) = max m(1..t)``, the curve is flat at report
    ``t`` if ``B(t) - B(t - patience) <= min_gain * (max m - min m)``: what was gained lately is a small part of the
    curve's whole range (the "patience" of early stopping: Prechelt 1998, "Early Stopping - But When?", in units of
    the curve itself). A flat trial among the best ``protect_top`` at its step runs on: the winner's plateau is the
    answer of the job. The default configuration always passes. With several objectives all must be flat.

    Attributes:
        patience: Reports without a gain that are needed.
        min_gain: Part of the curve's own range that counts as a gain, 0 to 1.
        smooth: Reports that are averaged before anything is compared.
        min_steps: Steps before this one are forgiven.
        protect_top: What is among this many best at its step is never stopped.
        metric: The curve; the objective's own if ``None``.
    """

    name: ClassVar[str] = "plateau"

    patience: int = 10
    min_gain: float = 0.02
    smooth: int = 3
    min_steps: int = 20
    protect_top: int = 3
    metric: str | None = None

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to stop the trial, or ``None`` to let it go on."""
        objective = about(sight.objective, self.metric)
        if objective.also and any(self._flat(one, sight) is None for one in objective.also):
            return None
        reason = self._flat(replace(objective, also=()), sight)
        return None if reason is None or protected(sight, self.protect_top, objective) else reason

    def _flat(self, objective: Objective, sight: Sight) -> Reason | None:
        """The reason if one objective has nothing more to gain."""
        turn = sign(objective)
        values = [turn * value for _, value in series(sight.curve, objective.metric) if value is not None]
        # The first complete mean, `patience` reports, and one more to compare with.
        if not sight.compared or not self.min_steps <= sight.step < sight.total_steps:
            return None
        if len(values) < self.patience + self.smooth:
            return None
        means = moving_mean(values, self.smooth)[self.smooth - 1 :]
        gain = max(means) - max(means[: -self.patience])
        needed = self.min_gain * (max(means) - min(means))
        if gain > needed:
            return None
        best = turn * max(means)
        return Reason(
            pruner=self.name,
            text=(
                f"{objective.metric} has stayed at {best:.4g} for {self.patience} reports, until step {sight.step}: "
                f"it gained {gain:.2g}, a gain is more than {needed:.2g}"
            ),
            numbers={
                "best": best,
                "value": turn * means[-1],
                "gain": gain,
                "needed": needed,
                "patience": self.patience,
                "step": sight.step,
            },
        )
