"""What the infrastructure broke is tried again, after a pause that fits what broke and grows."""

import pytest

from autotune.search.retries import LONGEST_S, PAUSE_S, Retries
from autotune.search.types import Attempt, Done, EndKind, Launch, Outcome, Trial, Wait
from autotune.spec.known import RETRYABLE
from autotune.spec.types import Budget, Retry
from autotune.states import TrialState


def trial(attempt: int) -> Trial:
    running = Attempt(trial=0, number=attempt, token=str(attempt))
    return Trial(number=0, state=TrialState.RUNNING, source="default", params={}, config={}, attempt=running)


def test_every_kind_that_may_be_repeated_has_a_pause_of_its_own():
    assert {str(kind) for kind in PAUSE_S} == set(RETRYABLE)


@pytest.mark.parametrize("kind", list(PAUSE_S))
def test_each_repetition_waits_twice_as_long_as_the_one_before(kind):
    retries, now = Retries(Retry(attempts=20, on=(kind.value,))), 1000.0
    pauses = []
    for attempt in range(1, 15):
        assert retries.again(trial(attempt), Outcome(kind=kind, message="gone"), now) is not None
        pause = next(s for s in range(10_000) if retries.ready(trial(attempt), now + s))
        assert not retries.ready(trial(attempt), now + pause - 0.5)
        pauses.append(pause)
    assert pauses == [min(LONGEST_S, PAUSE_S[kind] * 2**number) for number in range(14)]


def test_a_trial_waits_for_its_repetition_while_others_start(make_coordinator):
    coordinator = make_coordinator(retry=Retry(attempts=3, on=("crash",)))
    first = coordinator.next_trial(0.0)
    coordinator.on_end(first.attempt, Outcome(kind=EndKind.CRASH, message="it broke"), 1.0)
    assert coordinator.next_trial(2.0).attempt.trial == 1
    again = coordinator.next_trial(1.0 + PAUSE_S[EndKind.CRASH])
    assert (again.attempt.trial, again.attempt.number) == (0, 2)


def test_a_search_is_not_over_while_a_repetition_waits(make_coordinator):
    coordinator = make_coordinator(retry=Retry(attempts=3, on=("crash",)), budget=Budget(trials=1, parallel=2))
    first = coordinator.next_trial(0.0)
    coordinator.on_end(first.attempt, Outcome(kind=EndKind.CRASH, message="it broke"), 1.0)
    assert isinstance(coordinator.next_trial(2.0), Wait)
    again = coordinator.next_trial(100.0)
    assert isinstance(again, Launch)
    coordinator.on_metrics(again.attempt, 1, {"eval/reward": 1.0}, 1.0, 101.0)
    coordinator.on_end(again.attempt, Outcome(kind=EndKind.FINISHED, last_step=1), 102.0)
    assert isinstance(coordinator.next_trial(103.0), Done)
