"""Scores measured by the scale that all scores so far had."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class RewardNormalizer:
    """Running mean and spread of the scores, merged batch by batch (Chan, Golub and LeVeque 1979, equations 2.1).

    A reward model's scores have an arbitrary origin and unit. Divided by their standard deviation, the same KL
    coefficient, value clip and learning rates mean the same for any of them, as in PPO's usual implementations
    (Engstrom et al. 2020, arXiv:2005.12729, section 3; there it is the spread of discounted returns).

    Attributes:
        count: Scores seen.
        mean: Their mean (reward units).
        squares: Sum of their squared distances to the mean.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    @property
    def std(self) -> float:
        """Standard deviation of the scores seen (population, reward units); 0 before any."""
        return math.sqrt(self.squares / self.count) if self.count else 0.0

    def updated(self, scores: Tensor) -> RewardNormalizer:
        """The normaliser after a batch.

        Args:
            scores: `[batch]`, of all ranks, so that they agree (reward units).
        """
        number, values = len(scores), scores.double()
        if not number:
            return self
        mean = float(values.mean())
        squares = float((values - mean).square().sum())
        count, distance = self.count + number, mean - self.mean
        return RewardNormalizer(
            count=count,
            mean=self.mean + distance * number / count,
            squares=self.squares + squares + distance * distance * self.count * number / count,
        )

    def normalized(self, scores: Tensor, *, centered: bool) -> Tensor:
        """Scores in standard deviations.

        While all scores were the same there is no unit to measure them by, and they stay as they are.

        Args:
            scores: `[batch]` (reward units).
            centered: Take the running mean off first.

        Returns:
            `[batch]`, no unit.
        """
        shifted = scores - self.mean if centered else scores
        return shifted / self.std if self.std > 0 else shifted

    def saved(self) -> dict[str, float]:
        """What a checkpoint keeps of it."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    @classmethod
    def restored(cls, saved: Mapping[str, float] | None) -> RewardNormalizer:
        """The normaliser of a checkpoint; a new one where it has none."""
        if saved is None:
            return cls()
        return cls(count=int(saved["count"]), mean=float(saved["mean"]), squares=float(saved["squares"]))
