"""Hands what was committed to the observers (Optuna's study, MLflow) on a thread of its own.

A decision never waits for an observer, and an observer that fails never ends a job: the truth is in the book, and
``reconcile`` brings a late observer up to date at the next start.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from autotune.search.book import Book, History
from autotune.search.types import Event, Point, Trial
from autotune.states import JobState

logger = logging.getLogger(__name__)


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


class PublishingBook:
    """A book that tells observers about each save after it was committed.

    Args:
        book: Where the truth is kept.
        observers: Name -> factory; the factories run on the observers' thread, where a slow import harms nobody.
    """

    def __init__(self, book: Book, observers: dict[str, Callable[[], Observer]]) -> None:
        self._book = book
        self._factories = observers
        self._queue: queue.SimpleQueue[Callable[[Observer], None] | None] = queue.SimpleQueue()
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
        """Lets the observers finish; returns whether they did so in time."""
        self._queue.put(lambda observer: observer.close(best, state))
        self._queue.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        observers: dict[str, Observer] = {}
        for name, build in self._factories.items():
            try:
                observers[name] = build()
            except Exception:
                logger.exception("%s cannot be used; the job goes on without it", name)
        while (tell := self._queue.get()) is not None:
            for name, observer in observers.items():
                try:
                    tell(observer)
                except Exception:
                    logger.exception("%s is behind; it is brought up to date at the next start", name)
