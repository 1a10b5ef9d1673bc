"""Wait for a person's function, but not for ever."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

Outcome = tuple[object, BaseException | None]


class TooSlowError(Exception):
    """A call took longer than allowed.

    Attributes:
        seconds: What was allowed.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"took longer than {seconds:g} s")
        self.seconds = seconds


class TimeLimit:
    """Runs calls on a thread of its own, one after the other.

    A thread cannot be ended from outside. It is a daemon, so one that hangs does not keep the process alive; the run
    fails after the first call that is too slow.

    Args:
        seconds: Longest wait for one call.
    """

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds
        self._calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def call(self, function: Callable[[], object]) -> object:
        """The function's result.

        Raises:
            TooSlowError: It did not come in time.
            BaseException: Whatever the function raises.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="reward")
            self._thread.start()
        self._calls.put(function)
        try:
            result, error = self._outcomes.get(timeout=self._seconds)
        except queue.Empty:
            raise TooSlowError(self._seconds) from None
        if error is not None:
            raise error
        return result

    def _work(self) -> None:
        while True:
            function = self._calls.get()
            try:
                self._outcomes.put((function(), None))
            except BaseException as error:  # noqa: BLE001 - handed over to the caller
                self._outcomes.put((None, error))
