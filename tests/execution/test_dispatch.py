import pytest
from fake_coordinator import FakeCoordinator

from autotune.clock import ManualClock
from autotune.errors import LeaseLostError, StaleAttemptError
from autotune.execution import dispatch
from autotune.execution.dispatch import Dispatcher, Order
from autotune.execution.metrics_tail import CheckpointLine, Complaint, StepLine
from autotune.execution.worker import Report
from autotune.search.types import Done, EndKind, Launch, Outcome, Pause, Reason, Wait


@pytest.fixture
def clock():
    return ManualClock(100.0)


def step(number):
    return Report(lines=(StepLine(step=number, metrics={"a": 1.0}),))


def end(kind=EndKind.FINISHED, last_step=0):
    return Report(outcome=Outcome(kind=kind, last_step=last_step))


def make(clock, trials=1, **options):
    coordinator = FakeCoordinator([{}] * trials, **options)
    return coordinator, Dispatcher(coordinator, clock, lambda: None)


def test_an_attempt_costs_from_the_moment_it_has_its_slot(clock):
    coordinator, dispatcher = make(clock)
    assert isinstance(dispatcher.next_trial("a"), Launch)
    clock.advance(50)
    dispatcher.started("a")
    clock.advance(7)
    assert dispatcher.report("a", step(1)) is Order.GO_ON
    clock.advance(3)
    assert dispatcher.report("a", end()) is Order.FREE
    assert coordinator.costs[0] == [7.0]
    assert (coordinator.end_of(0)[0].cost_s, coordinator.end_of(0)[0].last_step) == (10.0, 1)


def test_a_stop_is_ordered_once_and_the_remaining_steps_are_still_recorded(clock):
    coordinator, dispatcher = make(clock, stop_at={0: 2})
    dispatcher.next_trial("a")
    assert dispatcher.report("a", step(1)) is Order.GO_ON
    assert dispatcher.report("a", step(2)) is Order.END_PROCESS
    assert dispatcher.report("a", step(3)) is Order.GO_ON
    report = Report(lines=(CheckpointLine(step=3, path="p"),), outcome=Outcome(kind=EndKind.STOPPED))
    assert dispatcher.report("a", report) is Order.FREE
    assert coordinator.steps[0] == [1, 2, 3]
    assert coordinator.checkpoints == [(0, 3, "p")]


def test_a_report_without_lines_is_a_heartbeat_through_which_a_cancel_arrives(clock):
    coordinator, dispatcher = make(clock)
    dispatcher.next_trial("a")
    assert dispatcher.report("a", Report()) is Order.GO_ON
    coordinator.cancelled = True
    assert dispatcher.report("a", Report()) is Order.END_PROCESS


def test_done_waits_for_the_running_attempts_since_their_end_may_bring_another(clock):
    coordinator, dispatcher = make(clock)
    coordinator.next_trial_now = coordinator.next_trial
    dispatcher.next_trial("a")
    coordinator.next_trial = lambda now: Done()
    assert isinstance(dispatcher.next_trial("b"), Wait)
    coordinator.next_trial = coordinator.next_trial_now
    dispatcher.report("a", end(EndKind.CRASH))
    again = dispatcher.next_trial("b")
    assert (again.attempt.trial, again.attempt.number) == (0, 2)
    dispatcher.report("b", end())
    assert isinstance(dispatcher.next_trial("c"), Done)


def test_a_waiting_coordinator_is_not_asked_again_before_something_happens(clock):
    coordinator, dispatcher = make(clock)
    dispatcher.next_trial("a")
    asked = []
    coordinator.next_trial = lambda now: asked.append(now) or Wait()
    for _ in range(5):
        dispatcher.next_trial("b")
    assert len(asked) == 1
    dispatcher.report("a", end())
    dispatcher.next_trial("b")
    assert len(asked) == 2


def test_a_lost_worker_is_the_nodes_fault_and_brings_another_attempt(clock):
    coordinator, dispatcher = make(clock)
    dispatcher.next_trial("a")
    dispatcher.report("a", step(5))
    dispatcher.lost("a", EndKind.NODE, "the machine burnt down")
    (outcome,) = coordinator.end_of(0)
    assert (outcome.kind, outcome.last_step, outcome.message) == (EndKind.NODE, 5, "the machine burnt down")
    assert dispatcher.next_trial("b").attempt.number == 2


def test_a_worker_that_dies_while_it_ends_its_process_has_stopped(clock):
    coordinator, dispatcher = make(clock, stop_at={0: 1})
    dispatcher.next_trial("a")
    dispatcher.report("a", step(1))
    dispatcher.lost("a", EndKind.NODE, "gone")
    assert coordinator.end_of(0)[0].kind is EndKind.STOPPED


def test_a_pause_ends_the_process_like_a_stop(clock):
    coordinator, dispatcher = make(clock)
    coordinator.on_metrics = lambda *_: Pause(reason=Reason(pruner="asha", text="rank 2 of 2"))
    dispatcher.next_trial("a")
    assert dispatcher.report("a", step(1)) is Order.END_PROCESS
    assert dispatcher.report("a", end(EndKind.STOPPED, 2)) is Order.FREE
    assert coordinator.end_of(0)[0].last_step == 2


@pytest.mark.parametrize("call", ["next_trial", "on_metrics", "on_heartbeat", "on_end", "on_checkpoint"])
def test_an_error_of_the_coordinator_ends_everything_and_is_kept(clock, call):
    coordinator, dispatcher = make(clock, trials=3)
    dispatcher.next_trial("a")

    def lose(*_):
        raise LeaseLostError("another driver holds the job")

    setattr(coordinator, call, lose)
    line = CheckpointLine(step=1, path="p") if call == "on_checkpoint" else StepLine(step=1, metrics={})
    dispatcher.report("a", Report(lines=() if call == "on_heartbeat" else (line,)))
    dispatcher.next_trial("b")
    dispatcher.report("a", end())
    assert isinstance(dispatcher.error, LeaseLostError)
    assert isinstance(dispatcher.next_trial("c"), Done)
    if call == "next_trial":
        assert dispatcher.report("b", step(1)) is Order.FREE  # it was never handed out


def test_a_stale_attempt_is_ended_and_never_mentioned_again(clock):
    coordinator, dispatcher = make(clock, trials=2)
    dispatcher.next_trial("a")

    def refuse(*_):
        raise StaleAttemptError("old token")

    coordinator.on_metrics = refuse
    assert dispatcher.report("a", step(1)) is Order.END_PROCESS
    assert dispatcher.report("a", end()) is Order.FREE
    assert coordinator.ends == []
    assert dispatcher.error is None
    assert isinstance(dispatcher.next_trial("b"), Launch)


def test_an_error_in_on_idle_is_kept(clock):
    dispatcher = Dispatcher(FakeCoordinator([{}]), clock, lambda: 1 / 0)
    dispatcher.idle()
    assert isinstance(dispatcher.error, ZeroDivisionError)
    assert isinstance(dispatcher.next_trial("a"), Done)


def test_a_complaint_about_the_file_is_logged_and_harmless(clock, caplog):
    coordinator, dispatcher = make(clock)
    dispatcher.next_trial("a")
    dispatcher.report("a", Report(lines=(Complaint(text="not a JSON line"),)))
    assert "not a JSON line" in caplog.text
    assert coordinator.steps[0] == []


def test_a_stop_that_came_while_it_waited_for_a_slot_is_carried_out_once_it_has_one(clock, monkeypatch):
    coordinator, dispatcher = make(clock)
    dispatcher.next_trial("a")
    coordinator.cancelled = True
    later = dispatch.time.monotonic() + 3
    monkeypatch.setattr(dispatch.time, "monotonic", lambda: later)
    assert dispatcher.unplaced() == ()
    dispatcher.started("a")
    assert dispatcher.report("a", step(1)) is Order.END_PROCESS
    assert dispatcher.report("a", step(2)) is Order.GO_ON


def test_an_attempt_that_waits_for_long_and_was_cancelled_is_taken_back(clock, monkeypatch):
    coordinator, dispatcher = make(clock)
    dispatcher.next_trial("a")
    coordinator.cancelled = True
    later = dispatch.time.monotonic() + 11
    monkeypatch.setattr(dispatch.time, "monotonic", lambda: later)
    assert dispatcher.unplaced() == ("a",)
    dispatcher.lost("a", EndKind.STOPPED, "it never had a slot")
    assert (coordinator.end_of(0)[0].kind, coordinator.end_of(0)[0].cost_s) == (EndKind.STOPPED, 0.0)
