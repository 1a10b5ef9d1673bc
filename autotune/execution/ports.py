"""What execution needs from the search core: the coordinator's calls, and nothing else of it."""

from __future__ import annotations

from typing import Protocol

from autotune.search.types import Attempt, Metrics, NextTrial, Outcome, Verdict


class Coordinator(Protocol):
    """Decides what runs; called from one thread only.

    After ``Stop`` or ``Pause`` the process writes a checkpoint and ends in its own time, so ``on_metrics`` and
    ``on_checkpoint`` may still be called for the steps it finishes; their verdicts are ignored. ``on_end`` follows
    once no process is left.
    """

    def next_trial(self, now: float) -> NextTrial:
        """What to start next; ``Wait`` is asked again after any report, and about every second."""
        ...

    def on_metrics(self, attempt: Attempt, step: int, metrics: Metrics, cost_s: float, now: float) -> Verdict:
        """One step of a trial's curves; ``cost_s`` = seconds the attempt has held its slot so far.

        Raises:
            StaleAttemptError: If the attempt is not the trial's current one.
        """
        ...

    def on_heartbeat(self, attempt: Attempt, cost_s: float, now: float) -> Verdict:
        """A sign of life about every two seconds of a trial that reports nothing, also while it waits for a slot.

        Raises:
            StaleAttemptError: If the attempt is not the trial's current one.
        """
        ...

    def on_checkpoint(self, attempt: Attempt, step: int, path: str, now: float) -> None:
        """A checkpoint that is complete on disk; ``path`` is relative to the trial's directory.

        Raises:
            StaleAttemptError: If the attempt is not the trial's current one.
        """
        ...

    def on_end(self, attempt: Attempt, outcome: Outcome, now: float) -> None:
        """The attempt's processes are gone. Idempotent."""
        ...
