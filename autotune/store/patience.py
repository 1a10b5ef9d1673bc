"""Waits for a database that does not answer, and does then what was to be done."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from autotune.clock import Clock
from autotune.errors import UnreachableError

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

LIMIT_S = 3600.0
"""How long somebody waits before the outage is somebody else's affair."""
_PAUSE_S = (0.2, 5.0)
_LOOK_S = 0.5


class Patience:
    """Calls something again for as long as the database does not answer.

    What is called must do no harm when it is done twice: a connection can break after the database has committed and
    before it could say so.

    Args:
        clock: What time it is.
        give_up: Asked about twice a second while it waits; ``True`` ends the wait with the database's error.
        limit_s: The longest wait.
    """

    def __init__(self, clock: Clock, *, give_up: Callable[[], bool] = lambda: False, limit_s: float = LIMIT_S) -> None:
        self._clock = clock
        self._give_up = give_up
        self._limit_s = limit_s

    def __call__(self, act: Callable[[], _T]) -> _T:
        """What ``act`` answers once it can.

        Raises:
            UnreachableError: If the wait took too long, or was given up.
        """
        began: float | None = None
        pause, longest = _PAUSE_S
        while True:
            try:
                answer = act()
            except UnreachableError as error:
                now = self._clock.now()
                if began is None:
                    began = now
                    logger.warning("waiting: %s", error.message)
                if now - began >= self._limit_s or not self._wait(pause):
                    raise
                pause = min(2 * pause, longest)
            else:
                if began is not None:
                    logger.warning("the database answers again after %.0f s", self._clock.now() - began)
                return answer

    def _wait(self, seconds: float) -> bool:
        """Waits; whether to try again."""
        until = self._clock.now() + seconds
        while not self._give_up():
            left = until - self._clock.now()
            if left <= 0:
                return True
            self._clock.sleep(min(left, _LOOK_S))
        return False
