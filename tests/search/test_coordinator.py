from __future__ import annotations

import pytest

from autotune.errors import Problem, StaleAttemptError
from autotune.search.book import MemoryBook
from autotune.search.coordinator import Closing
from autotune.search.types import Attempt, Continue, Done, EndKind, Launch, Outcome, Stop, Wait
from autotune.spec.types import Budget, Constraint, Direction, Objective, PrunerSpec, Retry
from autotune.states import TrialState


def good_curve(config, step):
    return {"eval/reward": 1.0 - abs(config["lr"] - 3e-3) * 100 + step * 0.01, "kl/actor_ref": 0.01 * step}


def test_a_whole_search_spends_its_budget_and_names_the_best(make_coordinator, play):
    coordinator = make_coordinator()
    play(coordinator, good_curve).play()
    assert [trial.state for trial in coordinator.trials.values()] == [TrialState.COMPLETED] * 6
    best = coordinator.best()
    assert best is not None
    assert best.value == max(trial.value for trial in coordinator.trials.values())
    assert isinstance(coordinator.next_trial(1e6), Done)


def test_the_first_trial_is_the_default_configuration(make_coordinator):
    launch = make_coordinator().next_trial(0.0)
    assert isinstance(launch, Launch)
    assert launch.config == {"lr": 1e-3, "clip": 0.2, "epochs": 1, "kl.type": "fixed", "kl.target": 0.1, "batch": 64}


def test_no_more_trials_run_than_the_budget_allows_in_parallel(make_coordinator):
    coordinator = make_coordinator()
    assert [type(coordinator.next_trial(0.0)) for _ in range(3)] == [Launch, Launch, Wait]


def test_the_same_seed_proposes_the_same_configurations_one_at_a_time(make_coordinator, play):
    def proposals(seed_budget):
        coordinator = make_coordinator(budget=Budget(trials=14, parallel=1))
        play(coordinator, good_curve).play()
        return [trial.params for trial in coordinator.trials.values()]

    assert proposals(None) == proposals(None)


def test_a_successor_proposes_what_the_interrupted_coordinator_would_have(make_coordinator, play):
    budget = Budget(trials=14, parallel=1)
    whole = make_coordinator(budget=budget)
    play(whole, good_curve).play()
    book = MemoryBook()
    first = make_coordinator(book, budget=budget)
    play(first, good_curve).play(rounds=64)
    second = make_coordinator(book, fence="u", budget=budget)
    second.recover(100.0)
    play(second, good_curve).play()
    assert len(first.trials) < 14
    assert [t.params for t in second.trials.values()] == [t.params for t in whole.trials.values()]


def test_a_stale_attempt_cannot_report(make_coordinator):
    book = MemoryBook()
    launch = make_coordinator(book).next_trial(0.0)
    successor = make_coordinator(book, fence="u")
    successor.recover(1.0)
    again = successor.next_trial(2.0)
    assert again.attempt.trial == launch.attempt.trial
    assert again.attempt.number == 2
    with pytest.raises(StaleAttemptError, match="attempt 1 of trial 0 is not the current one"):
        successor.on_metrics(launch.attempt, 1, {"eval/reward": 1.0}, 1.0, 3.0)
    with pytest.raises(StaleAttemptError):
        successor.on_end(Attempt(trial=9, number=1, token="x"), Outcome(kind=EndKind.FINISHED), 3.0)


def test_the_same_report_twice_counts_once(make_coordinator):
    book = MemoryBook()
    coordinator = make_coordinator(book)
    launch = coordinator.next_trial(0.0)
    coordinator.on_metrics(launch.attempt, 1, {"eval/reward": 1.0}, 1.0, 1.0)
    assert coordinator.on_metrics(launch.attempt, 1, {"eval/reward": 99.0}, 2.0, 2.0) == Continue()
    assert [point.metrics["eval/reward"] for point in book.load().curves[0]] == [1.0]
    coordinator.on_end(launch.attempt, Outcome(kind=EndKind.FINISHED, cost_s=3.0), 3.0)
    events = len(book.events)
    coordinator.on_end(launch.attempt, Outcome(kind=EndKind.NODE, cost_s=9.0), 4.0)
    assert coordinator.trials[0].state is TrialState.COMPLETED
    assert coordinator.trials[0].cost_s == 3.0
    assert len(book.events) == events


def test_a_later_attempt_replaces_the_steps_after_its_checkpoint(make_coordinator):
    book = MemoryBook()
    coordinator = make_coordinator(book)
    launch = coordinator.next_trial(0.0)
    for step in (1, 2, 3):
        coordinator.on_metrics(launch.attempt, step, {"eval/reward": float(step)}, float(step), float(step))
    coordinator.on_end(launch.attempt, Outcome(kind=EndKind.NODE, last_step=3, cost_s=3.0), 4.0)
    again = coordinator.next_trial(5.0)
    coordinator.on_metrics(again.attempt, 2, {"eval/reward": 20.0}, 1.0, 6.0)
    coordinator.on_metrics(again.attempt, 3, {"eval/reward": 30.0}, 2.0, 7.0)
    coordinator.on_end(again.attempt, Outcome(kind=EndKind.FINISHED, last_step=3, cost_s=2.0), 8.0)
    assert [point.metrics["eval/reward"] for point in book.load().curves[0]] == [1.0, 20.0, 30.0]
    assert coordinator.trials[0].value == 30.0
    assert coordinator.trials[0].cost_s == 5.0


@pytest.mark.parametrize("kind", [EndKind.OUT_OF_MEMORY, EndKind.NON_FINITE, EndKind.CONFIG])
def test_what_the_configuration_causes_is_infeasible_and_never_repeated(make_coordinator, kind):
    coordinator = make_coordinator()
    launch = coordinator.next_trial(0.0)
    coordinator.on_end(launch.attempt, Outcome(kind=kind, message="it broke", hint="smaller"), 1.0)
    trial = coordinator.trials[0]
    assert (trial.state, trial.error_kind, trial.error_hint) == (TrialState.INFEASIBLE, kind, "smaller")
    assert coordinator.next_trial(2.0).attempt.trial == 1


def test_what_the_infrastructure_causes_is_retried_and_then_failed(make_coordinator):
    coordinator = make_coordinator(retry=Retry(attempts=1, on=("node",)))
    launch = coordinator.next_trial(0.0)
    coordinator.on_end(launch.attempt, Outcome(kind=EndKind.NODE, message="gone"), 1.0)
    assert coordinator.trials[0].state is TrialState.QUEUED
    again = coordinator.next_trial(2.0)
    assert (again.attempt.trial, again.attempt.number) == (0, 2)
    coordinator.on_end(again.attempt, Outcome(kind=EndKind.NODE, message="gone"), 3.0)
    assert coordinator.trials[0].state is TrialState.FAILED


def test_an_objective_that_never_appears_fails_the_trial_with_the_metric_named(make_coordinator):
    coordinator = make_coordinator()
    launch = coordinator.next_trial(0.0)
    coordinator.on_metrics(launch.attempt, 1, {"reward/mean": 1.0}, 1.0, 1.0)
    coordinator.on_end(launch.attempt, Outcome(kind=EndKind.FINISHED, last_step=1), 2.0)
    assert coordinator.trials[0].state is TrialState.FAILED
    assert "eval/reward" in coordinator.trials[0].error_message


def test_an_objective_that_ends_not_finite_is_infeasible(make_coordinator):
    coordinator = make_coordinator()
    launch = coordinator.next_trial(0.0)
    coordinator.on_metrics(launch.attempt, 1, {"eval/reward": 5.0}, 1.0, 1.0)
    coordinator.on_metrics(launch.attempt, 2, {"eval/reward": None}, 2.0, 2.0)
    coordinator.on_end(launch.attempt, Outcome(kind=EndKind.FINISHED, last_step=2), 3.0)
    assert coordinator.trials[0].state is TrialState.INFEASIBLE
    assert coordinator.best() is None


def test_a_pruner_stops_a_trial_with_its_reason_and_numbers(make_coordinator):
    book = MemoryBook()
    coordinator = make_coordinator(book, prune=(PrunerSpec(name="kl_ceiling", options={"above": 0.1, "patience": 2}),))
    launch = coordinator.next_trial(0.0)
    assert coordinator.on_metrics(launch.attempt, 1, {"kl/actor_ref": 0.2}, 1.0, 1.0) == Continue()
    verdict = coordinator.on_metrics(launch.attempt, 2, {"kl/actor_ref": 0.3}, 2.0, 2.0)
    assert isinstance(verdict, Stop)
    assert verdict.reason.numbers == {"above": 0.1, "value": 0.3, "patience": 2, "step": 2}
    assert book.load().trials[0].state is TrialState.PRUNED
    assert "kl/actor_ref was above 0.1" in book.events[-1].text
    coordinator.on_end(launch.attempt, Outcome(kind=EndKind.STOPPED, last_step=3, cost_s=2.5), 3.0)
    assert (coordinator.trials[0].state, coordinator.trials[0].cost_s) == (TrialState.PRUNED, 2.5)


def test_a_trial_that_was_stopped_keeps_being_told_to_stop(make_coordinator):
    coordinator = make_coordinator(prune=(PrunerSpec(name="not_finite"),))
    launch = coordinator.next_trial(0.0)
    first = coordinator.on_metrics(launch.attempt, 1, {"actor/loss": None}, 1.0, 1.0)
    assert coordinator.trials[0].state is TrialState.INFEASIBLE
    assert coordinator.on_metrics(launch.attempt, 2, {"actor/loss": 1.0}, 2.0, 2.0) == first
    assert coordinator.on_heartbeat(launch.attempt, 3.0, 3.0) == first


def test_a_broken_constraint_keeps_a_trial_from_winning(make_coordinator, play):
    constraint = Constraint(metric="kl/actor_ref", upper=True, bound=0.05, text="kl/actor_ref <= 0.05")
    coordinator = make_coordinator(constraints=(constraint,))
    play(coordinator, lambda c, s: {"eval/reward": c["epochs"], "kl/actor_ref": 0.02 * c["epochs"]}).play()
    best = coordinator.best()
    assert best is not None
    assert best.params["epochs"] <= 2
    assert any(not trial.feasible for trial in coordinator.trials.values())


def test_what_preflight_rejects_is_infeasible_without_a_launch(make_coordinator):
    def check(config):
        return [Problem(message="the batch does not fit", hint="make it smaller")] if config["epochs"] < 3 else []

    coordinator = make_coordinator(check=check)
    launch = coordinator.next_trial(0.0)
    assert isinstance(launch, Launch)
    assert launch.config["epochs"] >= 3
    rejected = [trial for trial in coordinator.trials.values() if trial.state is TrialState.INFEASIBLE]
    assert rejected
    assert rejected[0].attempt is None
    assert rejected[0].error_message == "the batch does not fit make it smaller"


def test_a_cancelled_study_ends_its_running_trials_and_starts_nothing(make_coordinator):
    coordinator = make_coordinator()
    first, second = coordinator.next_trial(0.0), coordinator.next_trial(0.0)
    coordinator.close(Closing.CANCELLED)
    assert isinstance(coordinator.next_trial(1.0), Wait)
    assert isinstance(coordinator.on_heartbeat(first.attempt, 1.0, 1.0), Stop)
    assert isinstance(coordinator.on_metrics(second.attempt, 1, {"eval/reward": 1.0}, 1.0, 1.0), Stop)
    for launch in (first, second):
        coordinator.on_end(launch.attempt, Outcome(kind=EndKind.STOPPED, cost_s=1.0), 2.0)
    assert {trial.state for trial in coordinator.trials.values()} == {TrialState.CANCELLED}
    assert isinstance(coordinator.next_trial(3.0), Done)


def test_a_trial_that_finishes_while_the_study_closes_keeps_its_result(make_coordinator):
    coordinator = make_coordinator()
    launch = coordinator.next_trial(0.0)
    coordinator.on_metrics(launch.attempt, 1, {"eval/reward": 1.0}, 1.0, 1.0)
    coordinator.close(Closing.INTERRUPTED)
    coordinator.on_end(launch.attempt, Outcome(kind=EndKind.FINISHED, last_step=1), 2.0)
    assert coordinator.trials[0].state is TrialState.COMPLETED


def test_an_interrupted_trial_goes_on_in_its_own_directory(make_coordinator):
    book = MemoryBook()
    coordinator = make_coordinator(book)
    launch = coordinator.next_trial(0.0)
    coordinator.close(Closing.INTERRUPTED)
    coordinator.on_end(launch.attempt, Outcome(kind=EndKind.STOPPED, last_step=1), 2.0)
    again = make_coordinator(book, fence="u").next_trial(3.0)
    assert again.directory == launch.directory
    assert again.config == launch.config


def test_a_spent_wall_clock_cancels_what_runs(make_coordinator):
    coordinator = make_coordinator(deadline=10.0)
    launch = coordinator.next_trial(0.0)
    assert coordinator.on_heartbeat(launch.attempt, 5.0, 5.0) == Continue()
    verdict = coordinator.on_heartbeat(launch.attempt, 10.0, 10.0)
    assert isinstance(verdict, Stop)
    assert "wall-clock" in verdict.reason.text
    coordinator.on_end(launch.attempt, Outcome(kind=EndKind.STOPPED), 11.0)
    assert coordinator.trials[0].state is TrialState.CANCELLED


def test_a_reopened_study_tries_cancelled_and_failed_trials_again(make_coordinator):
    book = MemoryBook()
    coordinator = make_coordinator(book)
    launch = coordinator.next_trial(0.0)
    coordinator.close(Closing.CANCELLED)
    coordinator.on_end(launch.attempt, Outcome(kind=EndKind.STOPPED), 1.0)
    successor = make_coordinator(book, fence="u")
    successor.reopen(2.0)
    assert successor.next_trial(3.0).attempt == Attempt(trial=0, number=2, token="u-0-2")


def test_nothing_changes_in_memory_when_the_book_refuses(make_coordinator):
    class FullBook(MemoryBook):
        full = False

        def save(self, trial, points=(), events=()):
            if self.full:
                raise OSError("disk full")
            super().save(trial, points, events)

    book = FullBook()
    coordinator = make_coordinator(book)
    launch = coordinator.next_trial(0.0)
    book.full = True
    with pytest.raises(OSError, match="disk full"):
        coordinator.on_metrics(launch.attempt, 1, {"eval/reward": 1.0}, 1.0, 1.0)
    assert coordinator.trials[0].last_step == 0
    book.full = False
    assert coordinator.on_metrics(launch.attempt, 1, {"eval/reward": 1.0}, 1.0, 1.0) == Continue()
    assert len(book.load().curves[0]) == 1


def test_the_objective_can_be_minimised(make_coordinator, play):
    coordinator = make_coordinator(objective=Objective(metric="loss", direction=Direction.MINIMIZE))
    play(coordinator, lambda c, s: {"loss": float(c["epochs"])}).play()
    assert coordinator.best().params["epochs"] == 1


def test_a_study_whose_trials_never_report_the_objective_gives_up_early(make_coordinator, play):
    coordinator = make_coordinator(budget=Budget(trials=40, parallel=2))
    play(coordinator, lambda config, step: {"reward/mean": 1.0}).play()
    assert coordinator.closing is Closing.NO_OBJECTIVE
    assert len(coordinator.trials) <= 4
    assert {trial.state for trial in coordinator.trials.values()} <= {TrialState.FAILED, TrialState.CANCELLED}


def test_a_study_whose_objective_is_never_finite_gives_up_early_with_everything_it_measured(make_coordinator, play):
    coordinator = make_coordinator(budget=Budget(trials=40, parallel=2))
    play(coordinator, lambda config, step: {"eval/reward": None, "reward/mean": 1.0}).play()
    assert coordinator.closing is Closing.NOT_FINITE
    assert len(coordinator.trials) <= 6
    ended = [trial for trial in coordinator.trials.values() if trial.state is TrialState.INFEASIBLE]
    assert len(ended) == 5
    assert all(coordinator.curves[trial.number] for trial in ended)


def test_a_study_goes_on_while_any_objective_was_ever_finite(make_coordinator, play):
    coordinator = make_coordinator(budget=Budget(trials=12, parallel=2))
    play(coordinator, lambda config, step: {"eval/reward": 1.0 if step < 4 else None}).play()
    assert coordinator.closing is None
    assert len(coordinator.trials) == 12


def test_a_study_goes_on_while_anybody_reports_the_objective(make_coordinator, play):
    coordinator = make_coordinator(budget=Budget(trials=8, parallel=1), start_from=())
    first = {}

    def reward(config, step):
        first.setdefault("lr", config["lr"])
        return {"eval/reward": 1.0} if config["lr"] == first["lr"] else {"loss": 1.0}

    play(coordinator, reward).play()
    states = [trial.state for trial in coordinator.trials.values()]
    assert states == [TrialState.COMPLETED, *[TrialState.FAILED] * 7]


def test_a_trial_whose_driver_died_is_charged_for_what_nobody_heard_of(make_coordinator):
    book = MemoryBook()
    launch = make_coordinator(book).next_trial(0.0)
    first = make_coordinator(book)
    first.recover(1.0)
    launch = first.next_trial(2.0)
    first.on_metrics(launch.attempt, 1, {"eval/reward": 1.0}, 3.0, 5.0)
    asked = []

    def unpaid(trial, heard_at):
        asked.append((trial.number, heard_at))
        return 2.5

    successor = make_coordinator(book)
    successor.recover(60.0, unpaid)
    assert asked == [(0, 5.0)]
    assert book.load().trials[0].cost_s == 5.5
