"""Hands what was committed to the observers (Optuna's study, MLflow) on a thread of its own.

A decision never waits for an observer, and an observer that fails never ends a job: the truth is in the book. One that
failed is built anew after a while and brought up to date from the book; where that does not work until the end, the
service does it later (``upkeep``).
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from autotune.search.book import Book, History
from autotune.search.types import Event, Point, Trial
from autotune.states import JobState

logger = logging.getLogger(__name__)

_CATCH_UP_S = (2.0, 60.0)
"""Seconds until an observer that failed is tried again: the first time, and at most."""


class Observer(Protocol):
    """Keeps a picture of a study elsewhere."""

    def on_save(self, trial: Trial, points: Sequence[Point]) -> None:
        """A trial as it is now, and new points of its curve; the same twice does no harm."""
        ...

    def reconcile(self, history: History) -> None:
        """Brings the picture up to date with everything that is known."""
        ...

    def close(self, best: Trial | None, state: JobState) -> None:
        """The driver ends; ``best`` is the winner so far and ``state`` what becomes of the job."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class _End:
    """The driver's last word."""

    best: Trial | None
    state: JobState
    until: float


_Tell = Callable[[Observer], None]


class PublishingBook:
    """A book that tells observers about each save after it was committed.

    Args:
        book: Where the truth is kept.
        observers: Name -> factory; the factories run on the observers' thread, where a slow import harms nobody.
        catch_up_s: Seconds until an observer that failed is tried again: the first time, and at most.
    """

    def __init__(
        self,
        book: Book,
        observers: dict[str, Callable[[], Observer]],
        catch_up_s: tuple[float, float] = _CATCH_UP_S,
    ) -> None:
        self._book = book
        self._followers = [_Follower(name, build, book, catch_up_s) for name, build in observers.items()]
        self._queue: queue.SimpleQueue[_Tell | _End] = queue.SimpleQueue()
        self._whole = False
        self._thread = threading.Thread(target=self._run, name="observers", daemon=True)
        self._thread.start()

    def load(self) -> History:
        """Reads everything back, and brings the observers up to date with it."""
        history = self._book.load()
        self._queue.put(lambda observer: observer.reconcile(history))
        return history

    def save(self, trial: Trial, points: Sequence[Point] = (), events: Sequence[Event] = ()) -> None:
        """Writes through and passes on what was written."""
        self._book.save(trial, points, events)
        kept = tuple(points)
        self._queue.put(lambda observer: observer.on_save(trial, kept))

    def close(self, best: Trial | None, state: JobState, timeout_s: float) -> bool:
        """Lets the observers finish; returns whether all of them have everything."""
        self._queue.put(_End(best=best, state=state, until=time.monotonic() + timeout_s))
        self._thread.join(timeout_s)
        return self._whole and not self._thread.is_alive()

    def _run(self) -> None:
        while not isinstance(tell := self._queue.get(), _End):
            for follower in self._followers:
                follower.tell(tell)
        ends = [follower.end(tell) for follower in self._followers]  # all of them, whatever became of the first
        self._whole = all(ends)


class _Follower:
    """One observer, and whether it has heard everything."""

    def __init__(self, name: str, build: Callable[[], Observer], book: Book, catch_up_s: tuple[float, float]) -> None:
        self._name, self._build, self._book = name, build, book
        self._pause, self._longest = catch_up_s
        self._observer: Observer | None = None
        self._behind = False
        self._again_at = 0.0

    def tell(self, tell: _Tell) -> None:
        """Passes something on; or, for one that is behind, everything, once it is time to try again."""
        if not self._behind:
            self._try(lambda: tell(self._open()))
        elif time.monotonic() >= self._again_at:
            self._try(self._catch_up)

    def end(self, end: _End) -> bool:
        """Brings the observer up to date, if there is time for it, and closes it; whether that went well."""
        closed = False
        while not closed:
            if not self._behind:
                closed = self._try(lambda: self._open().close(end.best, end.state))
                continue
            left = min(self._again_at, end.until) - time.monotonic()
            if left > 0:
                threading.Event().wait(left)
            if time.monotonic() >= end.until:
                return False
            self._try(self._catch_up)
        return True

    def _open(self) -> Observer:
        if self._observer is None:
            self._observer = self._build()
        return self._observer

    def _catch_up(self) -> None:
        history = self._book.load()
        self._open().reconcile(history)
        logger.warning("%s is up to date again", self._name)

    def _try(self, act: Callable[[], None]) -> bool:
        try:
            act()
        except Exception:
            logger.exception("%s is behind; it is brought up to date in %.0f s", self._name, self._pause)
            self._again_at = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, self._longest)
            # What it remembers may not be what was written: the next one looks for itself.
            self._observer, self._behind = None, True
            return False
        self._behind = False
        return True
