"""Stops a trial that is too slow to be worth its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autotune.search.pruners.base import Sight
from autotune.search.pruners.windows import tail
from autotune.search.types import Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class ThroughputFloor:
    """Stops a trial that trains slower than a floor.

    Fires if the mean of the last ``smooth`` reports is below ``below`` for ``patience`` reports in a row. The first
    steps compile, allocate and fill caches; ``min_steps`` forgives them.

    Attributes:
        below: The lowest throughput that is allowed, in the metric's unit (tokens per second).
        patience: Consecutive reports below it that are needed.
        metric: The throughput curve.
        smooth: Reports that are averaged before anything is compared.
        min_steps: Steps before this one are forgiven.
    """

    name: ClassVar[str] = "throughput_floor"

    below: float
    patience: int = 3
    metric: str = "perf/tokens_per_s"
    smooth: int = 3
    min_steps: int = 5

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to stop the trial, or ``None`` to let it go on."""
        last = tail(sight.curve, self.metric, count=self.patience, smooth=self.smooth, min_steps=self.min_steps)
        if last is None or any(value >= self.below for _, value in last):
            return None
        value = last[-1][1]
        return Reason(
            pruner=self.name,
            text=(
                f"{self.metric} was below {self.below:g} for {self.patience} reports in a row, "
                f"{value:.4g} at step {sight.step}"
            ),
            numbers={"below": self.below, "value": value, "patience": self.patience, "step": sight.step},
        )
