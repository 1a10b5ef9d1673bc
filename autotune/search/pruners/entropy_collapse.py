"""Stops a trial that has stopped exploring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autotune.search.pruners.base import Sight
from autotune.search.pruners.windows import beginning, tail
from autotune.search.types import Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class EntropyCollapse:
    """Stops a trial whose policy entropy has fallen to a small part of what it began with.

    Cui et al. 2025, "The Entropy Mechanism of Reinforcement Learning for Reasoning Language Models",
    arXiv:2505.22617: without intervention reward is bought with entropy, ``R = -a exp(H) + b``, so at ``H`` near 0
    nothing is left to buy with. Fires if the mean of the last ``smooth`` reports is below ``left * H_0`` for
    ``patience`` reports in a row, with ``H_0`` the mean of the first ``smooth`` reports (nats per token, positive).

    Attributes:
        left: Part of the first entropy that must be left, 0 to 1.
        patience: Consecutive reports below it that are needed.
        metric: The entropy curve.
        smooth: Reports that are averaged before anything is compared.
        min_steps: Steps before this one are forgiven.
    """

    name: ClassVar[str] = "entropy_collapse"

    left: float = 0.1
    patience: int = 5
    metric: str = "actor/entropy"
    smooth: int = 3
    min_steps: int = 10

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to stop the trial, or ``None`` to let it go on."""
        last = tail(sight.curve, self.metric, count=self.patience, smooth=self.smooth, min_steps=self.min_steps)
        first = beginning(sight.curve, self.metric, self.smooth) if last else None
        if last is None or first is None or first <= 0 or any(value >= self.left * first for _, value in last):
            return None
        value, floor = last[-1][1], self.left * first
        return Reason(
            pruner=self.name,
            text=(
                f"{self.metric} fell from {first:.4g} to {value:.4g} and stayed below {floor:.4g} "
                f"({self.left:.0%} of it) for {self.patience} reports, until step {sight.step}"
            ),
            numbers={
                "first": first,
                "value": value,
                "floor": floor,
                "left": self.left,
                "patience": self.patience,
                "step": sight.step,
            },
        )
