"""Trials against a model of a few lines: whatever workers, drivers and people do, and in whatever order.

The model knows the state of each trial, the attempt that may speak for it, and the steps of its curve.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from autotune.errors import StaleAttemptError
from autotune.search.book import MemoryBook
from autotune.search.closing import Closing
from autotune.search.coordinator import Coordinator
from autotune.search.types import INFEASIBLE_KINDS, Attempt, EndKind, Launch, Outcome, Pause, Stop
from autotune.spec.types import Budget, FloatRange, Parameter, PrunerSpec, Retry, SamplerSpec
from autotune.states import TRIAL_ENDS, TrialState

STEPS, TRIALS, PARALLEL, RETRIES = 9, 7, 3, 1
CEILING = 0.5
PICKS = st.integers(0, 10**6)


@dataclass
class Model:
    """What the trial must be."""

    state: TrialState
    attempt: Attempt
    launches: int = 1
    steps: dict[int, float] = field(default_factory=dict)
    alive: bool = True
    """Whether the process of the present attempt has not ended."""


class TrialMachine(RuleBasedStateMachine):
    make_space = None

    @initialize()
    def begin(self):
        self.space = type(self).make_space(
            search={"x": Parameter(path="x", domain=FloatRange(low=0.0, high=1.0))},
            sampler=SamplerSpec(name="random", seed=1),
            budget=Budget(trials=TRIALS, parallel=PARALLEL),
            retry=Retry(attempts=RETRIES, on=("node",)),
            start_from=(),
            prune=(
                PrunerSpec(name="kl_ceiling", options={"above": CEILING, "patience": 1}),
                PrunerSpec(name="asha", options={"min_steps": 3, "reduction_factor": 2}),
            ),
        )
        self.book, self.drivers, self.now = MemoryBook(), 0, 0.0
        self.model: dict[int, Model] = {}
        self.stale: list[Attempt] = []
        self.start_driver()

    def start_driver(self):
        self.drivers += 1
        self.coordinator = Coordinator(self.space, {"x": 0.5}, self.book, fence=f"d{self.drivers}", total_steps=STEPS)

    def having(self, *states, alive=None):
        return [
            number
            for number, one in sorted(self.model.items())
            if one.state in states and (alive is None or one.alive is alive)
        ]

    def pick(self, numbers, pick):
        return numbers[pick % len(numbers)]

    @precondition(lambda self: self.coordinator.closing is None)
    @rule()
    def ask(self):
        self.now += 1
        answer = self.coordinator.next_trial(self.now)
        if not isinstance(answer, Launch):
            # Nothing is left to start; what waited at a rung may have ended.
            for number in self.having(TrialState.PAUSED):
                self.model[number].state = self.coordinator.trials[number].state
                assert self.model[number].state in (TrialState.PAUSED, TrialState.PRUNED)
            return
        number = answer.attempt.trial
        assert len(self.having(TrialState.RUNNING)) < PARALLEL
        before = self.model.get(number)
        if before is None:
            assert number == len(self.model) < TRIALS
            self.model[number] = Model(state=TrialState.RUNNING, attempt=answer.attempt)
            return
        assert before.state in (TrialState.QUEUED, TrialState.PAUSED)
        assert before.state is TrialState.QUEUED or not before.alive
        assert answer.attempt.number == before.launches + 1
        self.stale.append(before.attempt)
        before.state, before.attempt, before.alive = TrialState.RUNNING, answer.attempt, True
        before.launches += 1

    @precondition(lambda self: self.having(TrialState.RUNNING, alive=True))
    @rule(pick=PICKS, reward=st.floats(0, 1), kl=st.sampled_from([0.1, 0.1, 0.1, 0.9]))
    def report(self, pick, reward, kl):
        one = self.model[self.pick(self.having(TrialState.RUNNING, alive=True), pick)]
        step = max(one.steps, default=0) + 1
        if step > STEPS:
            return
        metrics = {"eval/reward": reward, "kl/actor_ref": kl}
        verdict = self.coordinator.on_metrics(one.attempt, step, metrics, float(step), self.now)
        one.steps[step] = reward
        closing = self.coordinator.closing is not None
        if kl > CEILING:
            assert isinstance(verdict, Stop)
            one.state = TrialState.PRUNED
        elif isinstance(verdict, Pause):
            assert step == 3
            one.state = TrialState.PAUSED
        else:
            assert isinstance(verdict, Stop) is closing
        # The same report again changes nothing.
        again = self.coordinator.on_metrics(one.attempt, step, metrics, float(step), self.now)
        assert type(again) is type(verdict)

    @precondition(lambda self: any(one.alive for one in self.model.values()))
    @rule(pick=PICKS, kind=st.sampled_from([EndKind.FINISHED, EndKind.STOPPED, EndKind.OUT_OF_MEMORY, EndKind.NODE]))
    def end(self, pick, kind):
        one = self.model[self.pick([n for n, model in sorted(self.model.items()) if model.alive], pick)]
        if kind is EndKind.FINISHED and (not one.steps or one.state is TrialState.PRUNED):
            kind = EndKind.STOPPED
        if kind is EndKind.STOPPED and one.state is TrialState.RUNNING and self.coordinator.closing is None:
            kind = EndKind.NODE  # nobody told it to stop
        self.coordinator.on_end(one.attempt, Outcome(kind=kind, last_step=len(one.steps)), self.now)
        self.coordinator.on_end(one.attempt, Outcome(kind=EndKind.NODE), self.now)  # the same end counts once
        one.alive = False
        one.state = self.after(one, kind)

    def after(self, one, kind):
        if one.state is TrialState.PAUSED and kind not in (EndKind.FINISHED, *INFEASIBLE_KINDS):
            return one.state
        if one.state not in (TrialState.RUNNING, TrialState.PAUSED):
            return one.state
        if kind is EndKind.FINISHED:
            return TrialState.COMPLETED
        if kind in INFEASIBLE_KINDS:
            return TrialState.INFEASIBLE
        closing = self.coordinator.closing
        if closing is not None:
            return TrialState.QUEUED if closing is Closing.INTERRUPTED else TrialState.CANCELLED
        return TrialState.QUEUED if one.launches <= RETRIES else TrialState.FAILED

    @precondition(lambda self: self.stale)
    @rule(pick=PICKS)
    def a_stale_attempt_speaks(self, pick):
        attempt = self.pick(self.stale, pick)
        with pytest.raises(StaleAttemptError):
            self.coordinator.on_metrics(attempt, 99, {"eval/reward": 9.0}, 1.0, self.now)
        with pytest.raises(StaleAttemptError):
            self.coordinator.on_end(attempt, Outcome(kind=EndKind.FINISHED), self.now)

    @rule(why=st.sampled_from([Closing.INTERRUPTED, Closing.CANCELLED]))
    def close(self, why):
        self.coordinator.close(why)

    @rule()
    def the_driver_is_killed(self):
        """Its successor knows only what was written; the processes are gone with it."""
        self.start_driver()
        self.coordinator.recover(self.now)
        for one in self.model.values():
            one.alive = False
            if one.state is TrialState.RUNNING:
                one.state = TrialState.QUEUED

    @precondition(lambda self: self.having(TrialState.CANCELLED, TrialState.FAILED))
    @rule()
    def a_person_resumes(self):
        self.the_driver_is_killed()
        self.coordinator.reopen(self.now)
        for number in self.having(TrialState.CANCELLED, TrialState.FAILED):
            self.model[number].state = TrialState.QUEUED

    @invariant()
    def both_agree(self):
        if not hasattr(self, "coordinator"):
            return
        history = self.book.load()
        written = {trial.number: trial for trial in history.trials}
        assert written.keys() == self.model.keys() == self.coordinator.trials.keys()
        for number, one in self.model.items():
            assert written[number].state is one.state
            assert self.coordinator.trials[number] == written[number]
            points = history.curves.get(number, [])
            assert [point.step for point in points] == sorted(one.steps)
            assert {point.step: point.metrics["eval/reward"] for point in points} == one.steps
            if one.state in TRIAL_ENDS:
                assert written[number].ended_at is not None
            if one.state is TrialState.PRUNED:
                assert written[number].reason.text
        assert len(self.having(TrialState.RUNNING)) <= PARALLEL


def test_trials_are_what_a_small_model_says(make_space):
    machine = type("Machine", (TrialMachine,), {"make_space": staticmethod(make_space)})

    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=40, deadline=None))
