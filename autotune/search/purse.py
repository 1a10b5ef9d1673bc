"""The budget of GPU-hours: what was spent, what is reserved, and what may still be started.

A trial that starts reserves what it is expected to cost to its last step; what it really uses is charged as it is
reported, and what it does not use (it is pruned, paused, or faster than expected) is free again at once. The expected
cost of a step is the mean of all steps so far; before the first one nothing is known and as many trials start as may
run at a time. Reservations keep the search from starting what it cannot finish; the limit itself is kept by ending
whatever runs at the first report at which it is reached, so it is exceeded by what passes between two reports at most.
"""

from __future__ import annotations

from autotune.search.roster import Roster
from autotune.search.types import Trial
from autotune.spec.types import Space
from autotune.states import TrialState

_FINALISTS_AT_MOST = 0.5
"""Part of the budget that is kept for the finalists, however many there should be."""


class Purse:
    """Knows what a study may still spend, in seconds of one trial's place.

    Args:
        space: Its budget and resources.
        total_steps: Training steps of a full trial.
    """

    def __init__(self, space: Space, total_steps: int) -> None:
        hours, gpus = space.budget.gpu_hours, space.resources.gpus
        self._limit = None if hours is None or gpus <= 0 else hours * 3600 / gpus
        self._gpus = gpus
        self._steps = total_steps
        self._finalists = 0 if space.finalists is None else space.finalists.top * space.finalists.seeds

    def spent(self, trials: Roster) -> bool:
        """Whether the budget is used up."""
        return self._limit is not None and trials.cost_s >= self._limit

    def covers(self, trials: Roster, trial: Trial | None, *, finals: bool) -> bool:
        """Whether the rest of a trial, or a whole new one, can be paid for.

        Args:
            trials: Everybody.
            trial: The trial that would start; ``None`` = a new one.
            finals: Whether the finalists run already, so that nothing is kept for them.
        """
        if self._limit is None:
            return True
        if trials.steps == 0:
            return not self.spent(trials)
        step_s = trials.cost_s / trials.steps
        reserved = sum(self._rest(running) for running in trials.having(TrialState.RUNNING)) * step_s
        # The best are often the dearest: what is kept for them must not be what the average trial takes.
        rerun = self._finalists * self._steps * max(step_s, trials.dearest_step_s)
        kept = 0.0 if finals else min(rerun, _FINALISTS_AT_MOST * self._limit)
        needed = (self._steps if trial is None else self._rest(trial)) * step_s
        # The tolerance lets a budget of exactly ten trials pay for ten.
        return trials.cost_s + reserved + kept + needed <= self._limit * (1 + 1e-9)

    def words(self, trials: Roster) -> str:
        """What was spent of what, for a reason."""
        hours = trials.cost_s * self._gpus / 3600
        limit = (self._limit or 0.0) * self._gpus / 3600
        whole = ""
        if trials.steps:
            whole = f"; a full trial takes about {trials.cost_s / trials.steps * self._steps * self._gpus / 3600:.3g}"
        return f"the budget of {limit:.3g} GPU-hours is spent ({hours:.3g} used{whole})"

    def _rest(self, trial: Trial) -> int:
        return max(0, self._steps - trial.last_step)
