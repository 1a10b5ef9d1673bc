"""A search that a person steers while it runs: held, stopped, given another budget, given configurations."""

import pytest

from autotune.search.closing import Closing
from autotune.search.types import Done, EndKind, Launch, Outcome, Wait
from autotune.spec.types import Budget, Start
from autotune.states import TrialState


def reward(config, step):
    return {"eval/reward": step * config["lr"], "kl/actor_ref": 0.01}


def test_a_held_search_starts_nothing_and_lets_run_what_runs(make_coordinator, play):
    coordinator = make_coordinator()
    players = play(coordinator, reward)
    players.play(rounds=2)
    assert len(coordinator.trials) == 2
    coordinator.hold(True)
    assert isinstance(coordinator.next_trial(3.0), Wait)
    players.play()
    assert [trial.state for trial in coordinator.trials.values()] == [TrialState.COMPLETED] * 2
    assert isinstance(coordinator.next_trial(99.0), Done)
    coordinator.hold(False)
    players.play()
    assert [trial.state for trial in coordinator.trials.values()] == [TrialState.COMPLETED] * 6


def test_a_stopped_search_lets_run_what_runs_and_starts_nothing_again(make_coordinator, play):
    coordinator = make_coordinator()
    players = play(coordinator, reward)
    players.play(rounds=2)
    coordinator.close(Closing.STOPPED)
    players.play()
    assert [trial.state for trial in coordinator.trials.values()] == [TrialState.COMPLETED] * 2
    assert isinstance(coordinator.next_trial(99.0), Done)


@pytest.mark.parametrize("why", [Closing.CANCELLED, Closing.INTERRUPTED])
def test_a_stopped_search_can_still_be_ended_at_once(make_coordinator, play, why):
    coordinator = make_coordinator()
    players = play(coordinator, reward)
    players.play(rounds=2)
    coordinator.close(Closing.STOPPED)
    coordinator.close(why)
    players.play(rounds=1)
    wanted = TrialState.CANCELLED if why is Closing.CANCELLED else TrialState.QUEUED
    assert [trial.state for trial in coordinator.trials.values()] == [wanted] * 2


def test_a_drained_search_lets_run_what_runs_and_leaves_the_rest_to_another_driver(make_coordinator, play):
    coordinator = make_coordinator()
    players = play(coordinator, reward)
    players.play(rounds=2)
    coordinator.enqueue(Start(label="x", values={}))
    broken, other = players.running[0][0].attempt, players.running[1][0].attempt.trial
    coordinator.close(Closing.DRAINED)
    coordinator.on_end(broken, Outcome(kind=EndKind.UNKNOWN, message="it broke"), 3.0)
    del players.running[0]
    players.play()
    assert isinstance(coordinator.next_trial(99.0), Done)
    states = {number: trial.state for number, trial in coordinator.trials.items()}
    assert states == {broken.trial: TrialState.QUEUED, other: TrialState.COMPLETED}


def test_a_drained_search_can_still_be_interrupted(make_coordinator, play):
    coordinator = make_coordinator()
    players = play(coordinator, reward)
    players.play(rounds=2)
    coordinator.close(Closing.DRAINED)
    coordinator.close(Closing.INTERRUPTED)
    players.play(rounds=1)
    assert [trial.state for trial in coordinator.trials.values()] == [TrialState.QUEUED] * 2


def test_a_cancelled_search_cannot_be_softened_to_a_stop(make_coordinator):
    coordinator = make_coordinator()
    coordinator.close(Closing.CANCELLED)
    coordinator.close(Closing.STOPPED)
    assert coordinator.closing is Closing.CANCELLED


def test_another_budget_counts_from_the_next_start_on(make_coordinator, play):
    coordinator = make_coordinator()
    players = play(coordinator, reward)
    players.play(rounds=2)
    coordinator.adjust(Budget(trials=3, parallel=3), None)
    assert isinstance(coordinator.next_trial(3.0), Launch)
    assert isinstance(coordinator.next_trial(3.0), Wait)
    assert len(coordinator.trials) == 3


def test_another_deadline_ends_what_runs(make_coordinator, play):
    coordinator = make_coordinator()
    players = play(coordinator, reward)
    players.play(rounds=2)
    coordinator.adjust(Budget(trials=6, parallel=2, wall_clock_s=1.0), deadline=2.5)
    players.play()
    assert coordinator.closing is Closing.WALL_CLOCK


def test_an_enqueued_configuration_runs_next_and_once(make_coordinator, play):
    coordinator = make_coordinator()
    players = play(coordinator, reward)
    players.play(rounds=2)
    for _ in range(2):
        coordinator.enqueue(Start(label="enqueued:7", values={"lr": 5e-3, "epochs": 4}))
    players.play()
    enqueued = [trial for trial in coordinator.trials.values() if trial.source == "enqueued:7"]
    assert [trial.number for trial in enqueued] == [2]
    assert enqueued[0].params == {"lr": 5e-3, "epochs": 4, "kl.type": "fixed"}
    assert len(coordinator.trials) == 6
    coordinator.enqueue(Start(label="enqueued:7", values={"lr": 5e-3, "epochs": 4}))
    coordinator.adjust(Budget(trials=7, parallel=2), None)
    players.play()
    assert sum(trial.source == "enqueued:7" for trial in coordinator.trials.values()) == 1
