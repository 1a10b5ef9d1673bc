"""Counts what a search spends and what it has found, the same way for everybody."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotune.clock import ManualClock
from autotune.execution.ports import Coordinator
from autotune.execution.simulated import simulate
from autotune.search.types import Attempt, Done, Launch, Metrics, NextTrial, Outcome, Reason, Stop, Verdict
from contest.problem import Problem, smoothed


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A trial that reached the full length.

    Attributes:
        steps: Training steps that the whole search had spent by then.
        seconds: Recorded processor seconds that it had spent by then.
        value: The trial's final objective.
    """

    steps: int
    seconds: float
    value: float


@dataclass(kw_only=True, slots=True)
class Meter:
    """Stands between the simulator and a contestant.

    Attributes:
        inner: The contestant.
        problem: What is searched.
        cap: Training steps after which everything is ended.
        found: The trials that reached the full length, in the order in which they did.
        steps: Training steps spent.
        seconds: Recorded processor seconds spent.
        launched: Trials started.
        reached: Trial -> the last step that it reached.
        plays: Trial -> the recorded run that it plays.
    """

    inner: Coordinator
    problem: Problem
    cap: int
    found: list[Found] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    launched: int = 0
    reached: dict[int, int] = field(default_factory=dict)
    plays: dict[int, str] = field(default_factory=dict)
    _values: dict[int, list[float]] = field(default_factory=dict)
    _spent: dict[str, float] = field(default_factory=dict)

    def next_trial(self, now: float) -> NextTrial:
        """What the contestant starts, until everything is spent."""
        if self.steps >= self.cap:
            return Done()
        answer = self.inner.next_trial(now)
        if isinstance(answer, Launch):
            number = answer.attempt.trial
            self.launched += number not in self.plays
            self.plays[number] = self.problem.replay.nearest(answer.config)[0].name
        return answer

    def on_metrics(self, attempt: Attempt, step: int, metrics: Metrics, cost_s: float, now: float) -> Verdict:
        """Count the step, hand it on."""
        self.steps += 1
        self.seconds += cost_s - self._spent.get(attempt.token, 0.0)
        self._spent[attempt.token] = cost_s
        self.reached[attempt.trial] = step
        values = self._values.setdefault(attempt.trial, [])
        value = metrics.get(self.problem.metric)
        if value is not None:
            values.append(value)
        if step == self.problem.steps and values:
            final = smoothed(values, self.problem.smooth)
            self.found.append(Found(steps=self.steps, seconds=self.seconds, value=final))
        verdict = self.inner.on_metrics(attempt, step, metrics, cost_s, now)
        if self.steps >= self.cap:
            return Stop(reason=Reason(pruner="cap", text="everything is spent", numbers={}))
        return verdict

    def on_heartbeat(self, attempt: Attempt, cost_s: float, now: float) -> Verdict:
        """Hand it on."""
        return self.inner.on_heartbeat(attempt, cost_s, now)

    def on_checkpoint(self, attempt: Attempt, step: int, path: str, now: float) -> None:
        """Hand it on."""
        self.inner.on_checkpoint(attempt, step, path, now)

    def on_end(self, attempt: Attempt, outcome: Outcome, now: float) -> None:
        """Hand it on."""
        self.inner.on_end(attempt, outcome, now)


def play(contestant: Coordinator, problem: Problem, *, parallel: int, cap: int) -> Meter:
    """Let a contestant search until it has spent `cap` training steps."""
    meter = Meter(inner=contestant, problem=problem, cap=cap)
    simulate(meter, problem.replay.curve, parallel=parallel, clock=ManualClock(), steps=problem.steps)
    return meter
