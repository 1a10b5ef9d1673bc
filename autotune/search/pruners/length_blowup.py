"""Stops a trial that has learned to talk instead of to answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autotune.search.pruners.base import Sight
from autotune.search.pruners.windows import beginning, tail
from autotune.search.types import Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthBlowup:
    """Stops a trial whose responses have grown to a multiple of their first length.

    Length is the cheapest way to please many reward models (Singhal et al. 2023, "A Long Way to Go: Investigating
    Length Correlations in RLHF", arXiv:2310.03716), and every token is paid for in rollout time. Fires if the mean of
    the last ``smooth`` reports is above ``factor * L_0`` for ``patience`` reports in a row, with ``L_0`` the mean of
    the first ``smooth`` reports (tokens). Where long answers are wanted, give a larger ``factor`` or leave the rule
    out.

    Attributes:
        factor: The multiple of the first length that is allowed.
        patience: Consecutive reports above it that are needed.
        metric: The length curve.
        smooth: Reports that are averaged before anything is compared.
        min_steps: Steps before this one are forgiven.
    """

    name: ClassVar[str] = "length_blowup"

    factor: float = 3
    patience: int = 5
    metric: str = "response/length_mean"
    smooth: int = 3
    min_steps: int = 10

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to stop the trial, or ``None`` to let it go on."""
        last = tail(sight.curve, self.metric, count=self.patience, smooth=self.smooth, min_steps=self.min_steps)
        first = beginning(sight.curve, self.metric, self.smooth) if last else None
        if last is None or first is None or first <= 0 or any(value <= self.factor * first for _, value in last):
            return None
        value, ceiling = last[-1][1], self.factor * first
        return Reason(
            pruner=self.name,
            text=(
                f"{self.metric} grew from {first:.4g} to {value:.4g} and stayed above {ceiling:.4g} "
                f"({self.factor:g} times that) for {self.patience} reports, until step {sight.step}"
            ),
            numbers={
                "first": first,
                "value": value,
                "ceiling": ceiling,
                "factor": self.factor,
                "patience": self.patience,
                "step": sight.step,
            },
        )
