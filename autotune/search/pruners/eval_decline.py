"""Stops a trial that pleases its reward and loses what the reward stood for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import ClassVar

from autotune.search.objective import moving_mean, series
from autotune.search.pruners.base import Sight
from autotune.search.pruners.standing import about, sign
from autotune.search.types import Point, Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class EvalDecline:
    """Stops a trial whose held-out evaluation falls while its training reward still rises.

    That is reward over-optimization (Gao et al. 2022, arXiv:2210.10760): the proxy goes on rising, the gold score has
    its peak behind it. As in EvalStop (arXiv:2606.04145) the rule is ``patience`` consecutive declines of the
    evaluation; here of its mean over ``smooth`` reports, ``E(t) < E(t-1) < ... < E(t-patience)``, and two conditions
    keep noise out: the fall from the peak is at least ``drop`` of the curve's range so far, ``max E - E(t) >= drop *
    (max E - min E)``, and the training reward's mean since the peak is above its mean over as many reports before it.
    A reward that falls too is not over-optimized; ``reward_collapse`` is for that.

    The trial is not wasted: it is completed with the objective that it had at the peak (``best_step`` in the reason's
    numbers), which training the same configuration up to that step reaches.

    Attributes:
        patience: Consecutive declines that are needed.
        drop: Part of the evaluation's range that must be lost, 0 to 1.
        smooth: Evaluations that are averaged before anything is compared.
        min_steps: Steps before this one are forgiven.
        metric: The held-out evaluation; the objective's own metric if ``None``.
        reward: The training reward.
    """

    name: ClassVar[str] = "eval_decline"

    patience: int = 3
    drop: float = 0.2
    smooth: int = 2
    min_steps: int = 10
    metric: str | None = None
    reward: str = "reward/mean"

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to stop the trial, or ``None`` to let it go on."""
        objective = about(sight.objective, self.metric)
        turn = sign(objective)
        values = series(sight.curve, objective.metric)
        reports = [(step, turn * value) for step, value in values if value is not None]
        too_early = sight.step < self.min_steps or len(reports) < self.patience + self.smooth
        if too_early or reports[-1][0] != sight.step:
            return None
        means = moving_mean([value for _, value in reports], self.smooth)[self.smooth - 1 :]
        steps = [step for step, _ in reports][self.smooth - 1 :]
        last = means[-self.patience - 1 :]
        best = max(means)
        fall, span = best - means[-1], best - min(means)
        falls = all(later < earlier for earlier, later in pairwise(last))
        if not falls or fall < self.drop * span:
            return None
        best_step = steps[means.index(best)]
        before, since = self._rewards(sight.curve, best_step)
        if before is None or since is None or since <= before:
            return None
        return Reason(
            pruner=self.name,
            text=(
                f"{objective.metric} fell {self.patience} times in a row, from {turn * best:.4g} at step {best_step} "
                f"to {turn * means[-1]:.4g} at step {sight.step}, while {self.reward} rose from {before:.4g} to "
                f"{since:.4g}"
            ),
            numbers={
                "best": turn * best,
                "best_step": best_step,
                "value": turn * means[-1],
                "reward_before": before,
                "reward_since": since,
                "patience": self.patience,
                "step": sight.step,
            },
        )

    def _rewards(self, curve: Sequence[Point], peak: int) -> tuple[float | None, float | None]:
        """The mean training reward of as many reports before the peak as there are since, and of those since."""
        reported = [(step, value) for step, value in series(curve, self.reward) if value is not None]
        since = [value for step, value in reported if step > peak]
        before = [value for step, value in reported if step <= peak][-len(since) :] if since else []
        return (fmean(before) if before else None), (fmean(since) if since else None)
