"""Stops a trial whose KL to the reference runs away before it has reached any ceiling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autotune.search.objective import recent
from autotune.search.pruners.base import Sight
from autotune.search.pruners.windows import slope
from autotune.search.types import Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class KlSlope:
    """Stops a trial whose KL to the reference grows too fast for ``patience`` reports in a row.

    The slope at report ``t`` is the least-squares one over the last ``window`` reports,
    ``b = sum (s_i - mean s)(k_i - mean k) / sum (s_i - mean s)^2``, in nats per token and step. The distance to the
    reference is what reward is bought with and over-bought (Gao et al. 2022, "Scaling Laws for Reward Model
    Overoptimization", arXiv:2210.10760: gold reward is a function of ``sqrt(KL)`` with a peak), so a KL that is
    still low but climbs steeply is a run on its way out.

    Attributes:
        above: The steepest slope that is allowed, in nats per token and training step.
        window: Reports that a slope is fitted to.
        patience: Consecutive slopes above it that are needed.
        metric: The KL curve.
        min_steps: Steps before this one are forgiven.
    """

    name: ClassVar[str] = "kl_slope"

    above: float
    window: int = 8
    patience: int = 3
    metric: str = "kl/actor_ref"
    min_steps: int = 10

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to stop the trial, or ``None`` to let it go on."""
        needed = self.window + self.patience - 1
        reported = recent(sight.curve, self.metric, needed)
        last = [(step, value) for step, value in reported if value is not None]
        if len(last) < needed or last[-self.patience][0] < self.min_steps:
            return None
        slopes = [slope(last[end - self.window : end]) for end in range(self.window, needed + 1)]
        if any(value <= self.above for value in slopes):
            return None
        return Reason(
            pruner=self.name,
            text=(
                f"{self.metric} grew by {slopes[-1]:.3g} per step, faster than {self.above:g}, for {self.patience} "
                f"reports in a row; {last[-1][1]:.4g} at step {sight.step}"
            ),
            numbers={
                "above": self.above,
                "slope": slopes[-1],
                "value": last[-1][1],
                "window": self.window,
                "patience": self.patience,
                "step": sight.step,
            },
        )
