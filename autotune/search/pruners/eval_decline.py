"""Stops a trial that pleases its reward and loses what the reward stood for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

from autotune.search.objective import moving_mean, series
from autotune.search.pruners.base import Sight
from autotune.search.pruners.standing import about, sign
from autotune.search.types import Point, Reason

REWARDS = 5
"""Training rewards that are averaged around the peak and at the end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvalDecline:
    """Stops a trial whose held-out evaluation falls while its training reward still rises.

    That is reward over-optimization (Gao et al. 2022, arXiv:2210.10760): the proxy goes on rising, the gold score has
    its peak behind it. EvalStop (arXiv:2606.04145) waits for consecutive declines of the evaluation; but an evaluation
    of a hundred prompts wanders by itself, and a policy that exploits fast has lost everything within a few steps and
    declines no more. So with ``E`` the evaluation's mean over ``smooth`` reports, the last ``patience`` of them must
    all lie below the peak by ``drop`` of its size, ``max E - E(t) >= drop * |max E|``, and the training reward's mean
    over the last ``REWARDS`` reports must be above its mean around the peak. A reward that falls too is not
    over-optimized; ``reward_collapse`` is for that.

    The trial is not wasted: it is completed with the objective that it had at the peak (``best_step`` in the reason's
    numbers), which training the same configuration up to that step reaches.

    Attributes:
        patience: Consecutive evaluations at that low that are needed.
        drop: Part of the best evaluation that must be lost, 0 to 1.
        smooth: Evaluations that are averaged before anything is compared.
        min_steps: Steps before this one are forgiven.
        metric: The held-out evaluation; the objective's own metric if ``None``.
        reward: The training reward.
    """

    name: ClassVar[str] = "eval_decline"

    patience: int = 3
    drop: float = 0.2
    smooth: int = 3
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
        best = max(means)
        floor = best - self.drop * abs(best)
        if means.index(best) >= len(means) - self.patience or any(mean >= floor for mean in means[-self.patience :]):
            return None
        best_step = steps[means.index(best)]
        before, since = self._rewards(sight.curve, best_step)
        if before is None or since is None or since <= before:
            return None
        return Reason(
            pruner=self.name,
            text=(
                f"{objective.metric} fell from {turn * best:.4g} at step {best_step} to {turn * means[-1]:.4g} and "
                f"stayed below {turn * floor:.4g} for {self.patience} reports, until step {sight.step}, while "
                f"{self.reward} rose from {before:.4g} to {since:.4g}"
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
        """The mean training reward of the reports around the peak, and of the last ones."""
        reported = [(step, value) for step, value in series(curve, self.reward) if value is not None]
        first = max(0, sum(step <= peak for step, _ in reported) - 1 - REWARDS // 2)
        around = [value for _, value in reported[first : first + REWARDS]]
        last = [value for _, value in reported[-REWARDS:]]
        return (fmean(around), fmean(last)) if last else (None, None)
