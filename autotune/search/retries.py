"""When an attempt that the infrastructure broke is repeated, and after what pause.

The pauses are forgotten when the driver is replaced: its successor has taken long enough to start.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune.search.types import EndKind, Outcome, Trial
from autotune.spec.types import Retry

PAUSE_S: Mapping[EndKind, float] = {
    EndKind.PORT_IN_USE: 1.0,
    EndKind.NODE: 1.0,
    EndKind.WEIGHT_SYNC: 5.0,
    EndKind.CRASH: 5.0,
    EndKind.UNKNOWN: 10.0,
    EndKind.DATA: 30.0,
}
"""Kind of failure -> seconds before the first repetition; each further one waits twice as long.

Another port is free at once and a trial does not go back to a machine that is gone; what crashed for no known reason,
and data that could not be read, need more time to recover."""
LONGEST_S = 300.0


class Retries:
    """Decides about repetitions and remembers the pauses.

    Args:
        retry: How often, and for which kinds of failure.
    """

    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        self._not_before: dict[int, float] = {}

    def again(self, trial: Trial, outcome: Outcome, now: float, planned: int = 0) -> str | None:
        """Whether the attempt that has just ended is repeated: the sentence that says so, or nothing.

        Args:
            trial: The trial, with the attempt that has ended.
            outcome: How it ended.
            now: Epoch seconds.
            planned: Earlier attempts that were no repetitions.
        """
        attempts = trial.attempt.number if trial.attempt else 0
        failures = attempts - planned
        if outcome.kind not in self._retry.on or failures > self._retry.attempts:
            return None
        first = PAUSE_S.get(outcome.kind, PAUSE_S[EndKind.UNKNOWN])
        pause = min(LONGEST_S, first * 2.0 ** min(30, max(0, failures - 1)))
        self._not_before[trial.number] = now + pause
        return f"trial {trial.number} is tried again after attempt {attempts}, in {pause:g} s: {outcome.message}"

    def ready(self, trial: Trial, now: float) -> bool:
        """Whether a queued trial may start."""
        return now >= self._not_before.get(trial.number, now)
