"""Runs a coordinator over curves on a virtual clock: the whole search in milliseconds, in the same order every time."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from autotune.clock import ManualClock
from autotune.errors import AutotuneError
from autotune.execution.ports import Coordinator
from autotune.search.types import (
    Attempt,
    Done,
    EndKind,
    Launch,
    Metrics,
    Outcome,
    Pause,
    Stop,
)
from autotune.spec.values import FlatConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Ends a curve: the process fails ``seconds`` after its last step."""

    kind: EndKind
    seconds: float = 1.0
    message: str = ""


CurveItem: TypeAlias = tuple[float, Metrics] | Failure
"""What comes next on a curve: one step as (seconds it takes, its metrics), or the failure that ends the process."""
Curve: TypeAlias = Callable[[FlatConfig, int], Iterator[CurveItem]]
"""(complete configuration, seed) -> the steps of a training run from step 1 on. The seed is the trial's number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedEvent:
    """One thing that happened, in the order in which it happened.

    Attributes:
        at: Seconds on the virtual clock.
        detail: The reason of a stop, the kind of an end, otherwise empty.
    """

    at: float
    kind: Literal["launch", "step", "pause", "stop", "end"]
    attempt: Attempt
    step: int = 0
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedRun:
    """What a simulation took.

    Attributes:
        seconds: Virtual wall-clock time from start to end.
        cost_s: Sum over all attempts of the seconds they held a slot.
    """

    seconds: float
    cost_s: float
    events: tuple[SimulatedEvent, ...]


@dataclass(kw_only=True, slots=True)
class _Worker:
    attempt: Attempt
    curve: Iterator[CurveItem]
    started_at: float
    step: int
    item: CurveItem | None = None


class StuckError(AutotuneError, RuntimeError):
    """The coordinator waits although nothing runs that could end the wait."""

    code = "stuck"


def simulate(
    coordinator: Coordinator,
    curve: Curve,
    *,
    parallel: int,
    clock: ManualClock,
    steps: int,
    idle_s: float = 1.0,
    max_idle: int = 100_000,
) -> SimulatedRun:
    """Runs a coordinator until it is done.

    Attempts that end or report at the same instant are served in the order in which they were launched. A later
    attempt of a trial goes on after the last step that was reported, as a process with a checkpoint would, and a
    failure that has struck once does not strike the same trial again.

    Args:
        coordinator: Asked for trials and told everything, as by real workers.
        curve: The training runs; a curve that ends before ``steps`` counts as finished there.
        parallel: Number of slots.
        clock: Moved from event to event; the coordinator sees no other time.
        steps: Training steps of a full trial.
        idle_s: How long to wait when the coordinator waits and nothing runs.
        max_idle: Such waits in a row before the coordinator counts as stuck.

    Raises:
        StuckError: If the coordinator waits for ever.
    """
    return _Simulation(coordinator, curve, clock, steps).run(parallel, idle_s, max_idle)


@dataclass(slots=True)
class _Simulation:
    coordinator: Coordinator
    curve: Curve
    clock: ManualClock
    steps: int
    events: list[SimulatedEvent] = field(default_factory=list)
    queue: list[tuple[float, int, _Worker]] = field(default_factory=list)
    order: Iterator[int] = field(default_factory=itertools.count)
    reached: dict[int, int] = field(default_factory=dict)
    failed: set[tuple[int, int]] = field(default_factory=set)
    cost_s: float = 0.0

    def run(self, parallel: int, idle_s: float, max_idle: int) -> SimulatedRun:
        start, idle = self.clock.now(), 0
        while True:
            done = self._fill(parallel)
            if self.queue:
                idle = 0
                self._next_event()
            elif done:
                return SimulatedRun(seconds=self.clock.now() - start, cost_s=self.cost_s, events=tuple(self.events))
            elif (idle := idle + 1) > max_idle:
                raise StuckError(f"the coordinator has waited {max_idle} times with nothing running.")
            else:
                self.clock.advance(idle_s)

    def _fill(self, parallel: int) -> bool:
        while len(self.queue) < parallel:
            answer = self.coordinator.next_trial(self.clock.now())
            if isinstance(answer, Launch):
                self._launch(answer)
            else:
                return isinstance(answer, Done)
        return False

    def _launch(self, launch: Launch) -> None:
        trial = launch.attempt.trial
        done = self.reached.get(trial, launch.origin.step if launch.origin else 0)
        curve = itertools.islice(self._alive(trial, self.curve(launch.config, trial)), done, None)
        worker = _Worker(attempt=launch.attempt, curve=curve, started_at=self.clock.now(), step=done)
        self._note("launch", worker)
        self._schedule(worker)

    def _alive(self, trial: int, curve: Iterator[CurveItem]) -> Iterator[CurveItem]:
        """Leaves out the failures that have already struck."""
        for index, item in enumerate(curve):
            if (trial, index) in self.failed:
                continue
            if isinstance(item, Failure):
                self.failed.add((trial, index))
            yield item

    def _schedule(self, worker: _Worker) -> None:
        worker.item = next(worker.curve, None) if worker.step < self.steps else None
        if worker.item is None:
            seconds = 0.0
        else:
            seconds = worker.item.seconds if isinstance(worker.item, Failure) else worker.item[0]
        heapq.heappush(self.queue, (self.clock.now() + seconds, next(self.order), worker))

    def _next_event(self) -> None:
        at, _, worker = heapq.heappop(self.queue)
        self.clock.advance(max(0.0, at - self.clock.now()))
        if worker.item is None:
            self._end(worker, EndKind.FINISHED)
        elif isinstance(worker.item, Failure):
            self._end(worker, worker.item.kind, worker.item.message)
        else:
            self._step(worker, worker.item[1])

    def _step(self, worker: _Worker, metrics: Metrics) -> None:
        worker.step += 1
        self.reached[worker.attempt.trial] = worker.step
        now = self.clock.now()
        self._note("step", worker)
        verdict = self.coordinator.on_metrics(worker.attempt, worker.step, metrics, now - worker.started_at, now)
        if isinstance(verdict, Pause | Stop):
            self._note("pause" if isinstance(verdict, Pause) else "stop", worker, verdict.reason.text)
            self._end(worker, EndKind.STOPPED)
        else:
            self._schedule(worker)

    def _end(self, worker: _Worker, kind: EndKind, message: str = "") -> None:
        now = self.clock.now()
        cost_s = now - worker.started_at
        self.cost_s += cost_s
        self._note("end", worker, kind)
        outcome = Outcome(kind=kind, last_step=worker.step, cost_s=cost_s, message=message)
        self.coordinator.on_end(worker.attempt, outcome, now)

    def _note(self, kind: Literal["launch", "step", "pause", "stop", "end"], worker: _Worker, detail: str = "") -> None:
        self.events.append(
            SimulatedEvent(at=self.clock.now(), kind=kind, attempt=worker.attempt, step=worker.step, detail=detail)
        )
