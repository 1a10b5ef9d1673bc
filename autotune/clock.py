"""The only place that asks what time it is, so that tests and the simulator can answer instead."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time in seconds since the Unix epoch and waits."""

    def now(self) -> float:
        """The present time in seconds since the Unix epoch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Waits for this many seconds."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """The present time in seconds since the Unix epoch."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Waits for this many seconds."""
        time.sleep(seconds)


class ManualClock:
    """A clock that moves only when it is told to.

    Args:
        start: The first answer of ``now``, in seconds.
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        """The present time in seconds."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Moves the clock forward instead of waiting."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Moves the clock forward.

        Raises:
            ValueError: If ``seconds`` is negative.
        """
        if seconds < 0:
            raise ValueError(f"a clock cannot go back: got {seconds} s, allowed are values >= 0")
        self._now += seconds
