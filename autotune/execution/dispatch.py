"""Between the placing of work and the coordinator: which attempt holds which slot, what it costs, what ends it.

Ray swallows an exception that is raised inside its callbacks, so nothing here raises one: the first is kept in
``error``, the attempts are ended, nothing more is started, and whoever runs the loop raises it in the end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum

from autotune.clock import Clock
from autotune.errors import StaleAttemptError
from autotune.execution.metrics_tail import CheckpointLine, Line, StepLine
from autotune.execution.ports import Coordinator
from autotune.execution.worker import HEARTBEAT_S, Report
from autotune.search.types import Done, EndKind, Launch, NextTrial, Outcome, Pause, Stop, Verdict, Wait

logger = logging.getLogger(__name__)

_IDLE_S = 1.0
_ASK_AGAIN_S = 1.0
_STUCK_S = 10.0


class Order(StrEnum):
    """What to do with a slot after a report."""

    GO_ON = "go_on"
    END_PROCESS = "end_process"
    """Tell the worker to end its process; it goes on reporting until it has."""
    FREE = "free"
    """The attempt is over and nothing of it is left."""


@dataclass(slots=True)
class _Held:
    launch: Launch
    since: float | None = None
    asked_at: float = 0.0
    heard_at: float = 0.0
    last_step: int = 0
    ending: bool = False
    told: bool = False
    stale: bool = False


class Dispatcher:
    """Knows every attempt that is placed or waits for its place. Not thread safe.

    Args:
        coordinator: Asked for work and told everything.
        clock: The time that the coordinator sees.
        on_idle: Called about every second.
    """

    def __init__(self, coordinator: Coordinator, clock: Clock, on_idle: Callable[[], None]) -> None:
        self.error: Exception | None = None
        self._coordinator = coordinator
        self._clock = clock
        self._on_idle = on_idle
        self._held: dict[str, _Held] = {}
        self._ask_at = 0.0
        self._idle_at = 0.0

    def next_trial(self, key: str) -> NextTrial:
        """Asks the coordinator for an attempt and remembers it under ``key``.

        ``Done`` is only answered once every attempt has ended, since an end may bring another attempt.
        """
        self.idle()
        if self.error is not None:
            return Done()
        now = time.monotonic()
        if now < self._ask_at:
            return Wait()
        answer: NextTrial = Done()
        with self._safely():
            answer = self._coordinator.next_trial(self._clock.now())
        if isinstance(answer, Launch):
            self._held[key] = _Held(launch=answer, asked_at=now, heard_at=now)
            return answer
        if self.error is None and (isinstance(answer, Wait) or self._held):
            self._ask_at = now + _ASK_AGAIN_S
            return Wait()
        return Done()

    def started(self, key: str) -> None:
        """The attempt has its slot: it costs from now on."""
        held = self._held.get(key)
        if held is not None and held.since is None:
            held.since = self._clock.now()

    def report(self, key: str, report: Report) -> Order:
        """Hands a worker's report to the coordinator, line by line, then the outcome if there is one."""
        self._ask_at = 0.0
        held = self._held.get(key)
        if held is None:
            return Order.FREE
        self.started(key)
        held.heard_at = time.monotonic()
        with self._safely(held):
            for line in report.lines:
                self._take(held, line)
            if not report.lines and report.outcome is None:
                self._obey(
                    held, self._coordinator.on_heartbeat(held.launch.attempt, self._cost(held), self._clock.now())
                )
        if report.outcome is not None:
            self._end(key, held, report.outcome)
            return Order.FREE
        held.ending = held.ending or held.stale or self.error is not None
        if not held.ending or held.told:
            return Order.GO_ON
        held.told = True
        return Order.END_PROCESS

    def lost(self, key: str, kind: EndKind, message: str, hint: str = "") -> None:
        """The worker itself is gone, and with it (through the guard) the attempt."""
        self._ask_at = 0.0
        held = self._held.get(key)
        if held is not None:
            kind = EndKind.STOPPED if held.ending and kind is EndKind.NODE else kind
            self._end(key, held, Outcome(kind=kind, last_step=held.last_step, message=message, hint=hint))

    def idle(self) -> None:
        """Calls ``on_idle`` about every second, however often it is called itself."""
        now = time.monotonic()
        if now >= self._idle_at and self.error is None:
            self._idle_at = now + _IDLE_S
            with self._safely():
                self._on_idle()

    def unplaced(self) -> tuple[str, ...]:
        """Sends the heartbeats of attempts that wait for a slot; answers which of them to take back."""
        now = time.monotonic()
        for held in self._held.values():
            if held.since is not None or held.ending or now - held.heard_at < HEARTBEAT_S:
                continue
            held.heard_at = now
            with self._safely(held):
                self._obey(held, self._coordinator.on_heartbeat(held.launch.attempt, 0.0, self._clock.now()))
            held.ending = held.ending or held.stale or self.error is not None
        return tuple(
            key
            for key, held in self._held.items()
            if held.since is None and held.ending and now - held.asked_at >= _STUCK_S
        )

    def directories(self) -> tuple[str, ...]:
        """The trial directories of the attempts that have not ended."""
        return tuple(held.launch.directory for held in self._held.values())

    def _take(self, held: _Held, line: Line) -> None:
        attempt, now = held.launch.attempt, self._clock.now()
        if held.stale or self.error is not None:
            return
        if isinstance(line, StepLine):
            held.last_step = max(held.last_step, line.step)
            verdict = self._coordinator.on_metrics(attempt, line.step, line.metrics, self._cost(held), now)
            self._obey(held, verdict)
        elif isinstance(line, CheckpointLine):
            self._coordinator.on_checkpoint(attempt, line.step, line.path, now)
        else:
            about = {"trial": attempt.trial, "attempt": attempt.number}
            logger.warning("trial %d, attempt %d: metrics.jsonl: %s", *about.values(), line.text, extra=about)

    def _obey(self, held: _Held, verdict: Verdict) -> None:
        held.ending = held.ending or isinstance(verdict, Pause | Stop)

    def _end(self, key: str, held: _Held, outcome: Outcome) -> None:
        del self._held[key]
        if held.stale or self.error is not None:
            return
        outcome = replace(outcome, cost_s=self._cost(held), last_step=max(outcome.last_step, held.last_step))
        with self._safely(held):
            self._coordinator.on_end(held.launch.attempt, outcome, self._clock.now())

    def _cost(self, held: _Held) -> float:
        return 0.0 if held.since is None else max(0.0, self._clock.now() - held.since)

    @contextmanager
    def _safely(self, held: _Held | None = None) -> Iterator[None]:
        try:
            yield
        except StaleAttemptError as error:
            if held is None:
                self.error = error
            else:
                held.stale = True
                about = {"trial": held.launch.attempt.trial, "attempt": held.launch.attempt.number}
                logger.warning("%s", error, extra=about)
        except Exception as error:  # noqa: BLE001 - kept, and raised by whoever runs the loop
            self.error = self.error or error
