from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.clock import ManualClock
from autotune.execution import synthetic_curves as ppo
from autotune.execution.simulated import simulate
from autotune.search.book import MemoryBook
from autotune.search.coordinator import Closing, Coordinator
from autotune.search.types import Continue, Done, EndKind, Launch, Outcome, Pause, Stop, Wait
from autotune.spec.types import Budget, FloatRange, Parameter, PrunerSpec
from autotune.states import TrialState

ASHA = PrunerSpec(name="asha", options={"min_steps": 3, "reduction_factor": 2})


def report(coordinator, launch, steps, value):
    for step in steps:
        verdict = coordinator.on_metrics(launch.attempt, step, {"eval/reward": value}, float(step), float(step))
        if not isinstance(verdict, Continue):
            return verdict
    return verdict


def end(coordinator, launch, kind=EndKind.STOPPED, last_step=3):
    coordinator.on_end(launch.attempt, Outcome(kind=kind, last_step=last_step, cost_s=float(last_step)), 50.0)


@pytest.fixture
def study(make_coordinator):
    def make(book=None, trials=4, parallel=2, **changes):
        budget = Budget(trials=trials, parallel=parallel)
        return make_coordinator(book, prune=(ASHA,), start_from=(), budget=budget, **changes)

    return make


def test_a_paused_trial_frees_its_place_and_is_launched_again_when_a_later_arrival_makes_room(study):
    book = MemoryBook()
    coordinator = study(book, parallel=1)
    first = coordinator.next_trial(0.0)
    verdict = report(coordinator, first, (1, 2, 3), 0.9)
    assert isinstance(verdict, Pause)
    assert coordinator.trials[0].state is TrialState.PAUSED
    assert "rank 1 of 1" in book.events[-1].text
    end(coordinator, first)
    second = coordinator.next_trial(4.0)
    assert second.attempt.trial == 1
    assert isinstance(report(coordinator, second, (1, 2, 3), 0.1), Pause)
    end(coordinator, second)
    again = coordinator.next_trial(8.0)
    assert (again.attempt.trial, again.attempt.number, again.directory) == (0, 2, first.directory)
    assert "was promoted from rung 3 and started attempt 2" in book.events[-1].text
    assert coordinator.trials[0].reason is None


def test_a_trial_is_not_launched_again_while_its_last_process_ends(study):
    coordinator = study(parallel=1, trials=2)
    first = coordinator.next_trial(0.0)
    report(coordinator, first, (1, 2, 3), 0.9)
    second = coordinator.next_trial(0.0)
    report(coordinator, second, (1, 2, 3), 0.1)
    assert isinstance(coordinator.next_trial(1.0), Wait)
    end(coordinator, second)
    assert isinstance(coordinator.next_trial(1.0), Wait)
    end(coordinator, first)
    assert coordinator.next_trial(1.0).attempt.trial == 0


def test_the_step_that_a_paused_process_finishes_stays_on_its_curve(study):
    book = MemoryBook()
    coordinator = study(book)
    launch = coordinator.next_trial(0.0)
    report(coordinator, launch, (1, 2, 3), 0.9)
    assert isinstance(coordinator.on_metrics(launch.attempt, 4, {"eval/reward": 0.8}, 4.0, 4.0), Pause)
    assert isinstance(coordinator.on_heartbeat(launch.attempt, 4.0, 4.0), Pause)
    assert [point.step for point in book.load().curves[0]] == [1, 2, 3, 4]
    end(coordinator, launch, last_step=4)
    assert coordinator.trials[0].state is TrialState.PAUSED


def test_a_process_that_finishes_before_the_pause_reaches_it_is_complete(study):
    coordinator = study()
    launch = coordinator.next_trial(0.0)
    report(coordinator, launch, (1, 2, 3), 0.9)
    for step in range(4, 11):
        coordinator.on_metrics(launch.attempt, step, {"eval/reward": 0.8}, float(step), float(step))
    end(coordinator, launch, EndKind.FINISHED, 10)
    assert (coordinator.trials[0].state, coordinator.trials[0].value) == (TrialState.COMPLETED, 0.8)


def test_a_paused_trial_that_runs_out_of_memory_while_it_ends_is_infeasible(study):
    coordinator = study()
    launch = coordinator.next_trial(0.0)
    report(coordinator, launch, (1, 2, 3), 0.9)
    end(coordinator, launch, EndKind.OUT_OF_MEMORY)
    assert coordinator.trials[0].state is TrialState.INFEASIBLE


def test_a_rule_that_stops_goes_before_a_rung_that_pauses(make_coordinator):
    prune = (ASHA, PrunerSpec(name="not_finite"))
    coordinator = make_coordinator(prune=prune, start_from=())
    launch = coordinator.next_trial(0.0)
    report(coordinator, launch, (1, 2), 0.9)
    verdict = coordinator.on_metrics(launch.attempt, 3, {"eval/reward": 0.9, "actor/loss": None}, 3.0, 3.0)
    assert isinstance(verdict, Stop)
    assert coordinator.trials[0].state is TrialState.INFEASIBLE


def test_a_successor_goes_on_with_what_was_paused(study):
    book = MemoryBook()
    first = study(book, trials=2, parallel=1)
    for value in (0.9, 0.1):
        launch = first.next_trial(0.0)
        report(first, launch, (1, 2, 3), value)
        end(first, launch)
    successor = study(book, trials=2, parallel=1, fence="u")
    successor.recover(9.0)
    again = successor.next_trial(10.0)
    assert (again.attempt.trial, again.attempt.token) == (0, "u-0-2")


def curve(config, step):
    return {"eval/reward": -abs(config["lr"] - 3e-3) + 1e-5 * step}


def test_when_the_budget_is_spent_what_is_still_paused_is_pruned_with_its_rank(study, play):
    book = MemoryBook()
    coordinator = study(book, trials=8)
    play(coordinator, curve).play()
    states = [trial.state for trial in coordinator.trials.values()]
    assert states.count(TrialState.COMPLETED) >= 1
    assert set(states) == {TrialState.COMPLETED, TrialState.PRUNED}
    for trial in coordinator.trials.values():
        if trial.state is TrialState.PRUNED:
            assert trial.reason.pruner == "asha"
            assert trial.reason.numbers["rank"] > 1
            assert trial.ended_at is not None
            assert trial.violations == {}
    assert "was not promoted: eval/reward" in book.events[-1].text
    assert isinstance(coordinator.next_trial(1e6), Done)


@pytest.mark.parametrize("trials", [1, 2, 3])
def test_even_the_smallest_study_ends_with_a_trial_of_full_length(study, play, trials):
    coordinator = study(trials=trials)
    play(coordinator, curve).play()
    completed = [trial for trial in coordinator.trials.values() if trial.state is TrialState.COMPLETED]
    assert [trial.last_step for trial in completed] == [10]


def test_a_cancelled_study_keeps_its_paused_trials_for_another_day(study):
    coordinator = study(parallel=1)
    launch = coordinator.next_trial(0.0)
    report(coordinator, launch, (1, 2, 3), 0.9)
    end(coordinator, launch)
    coordinator.close(Closing.CANCELLED)
    assert isinstance(coordinator.next_trial(1.0), Done)
    assert coordinator.trials[0].state is TrialState.PAUSED


def test_a_spent_wall_clock_prunes_what_is_paused(study):
    coordinator = study(parallel=1, deadline=20.0)
    launch = coordinator.next_trial(0.0)
    report(coordinator, launch, (1, 2, 3), 0.9)
    end(coordinator, launch)
    assert isinstance(coordinator.next_trial(30.0), Done)
    assert coordinator.trials[0].state is TrialState.PRUNED


LR = {ppo.LR: Parameter(path=ppo.LR, domain=FloatRange(low=1e-7, high=1e-4, log=True))}


def search(make_space, *, mode="promote", trials=40, parallel=4, seed=0, name="asha"):
    space = make_space(
        search=LR,
        budget=Budget(trials=trials, parallel=parallel),
        prune=(PrunerSpec(name=name, options={"min_steps": 5, "reduction_factor": 3, "mode": mode}),),
    )
    book = MemoryBook()
    coordinator = Coordinator(space, {ppo.LR: 1e-6}, book, fence="s", total_steps=60)
    run = simulate(
        coordinator, lambda c, n: ppo.ppo_like(c, 1000 * seed + n), parallel=parallel, clock=ManualClock(), steps=60
    )
    return coordinator, run, book


def test_promotion_finds_a_winner_as_good_for_less_than_stopping(make_space):
    costs = {"promote": 0.0, "stop": 0.0}
    values = {"promote": 0.0, "stop": 0.0}
    for mode in costs:
        for seed in range(4):
            coordinator, run, _ = search(make_space, mode=mode, seed=seed)
            costs[mode] += run.cost_s
            values[mode] += coordinator.best().value / 4
    assert costs["promote"] < costs["stop"]
    assert values["promote"] > values["stop"] - 0.03


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 25), st.integers(1, 6), st.integers(0, 99), st.sampled_from(["asha", "hyperband"]))
def test_pause_and_promotion_keep_every_curve_whole_and_pay_no_step_twice(make_space, trials, parallel, seed, name):
    _, run, book = search(make_space, trials=trials, parallel=parallel, seed=seed, name=name)
    history = book.load()
    for trial in history.trials:
        steps = [point.step for point in history.curves.get(trial.number, ())]
        assert steps == list(range(1, len(steps) + 1))
        assert trial.state in (TrialState.COMPLETED, TrialState.PRUNED, TrialState.INFEASIBLE)
    assert sum(event.kind == "step" for event in run.events) == sum(len(points) for points in history.curves.values())
    assert sum(trial.cost_s for trial in history.trials) == pytest.approx(run.cost_s)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 99))
def test_a_whole_search_never_lets_more_than_the_share_of_a_rung_go_on(make_space, trials, parallel, seed):
    book = search(make_space, trials=trials, parallel=parallel, seed=seed)[2]
    history = book.load()
    # A trial that cannot work has given its place back.
    alive = {trial.number for trial in history.trials if trial.state is not TrialState.INFEASIBLE}
    curves = {number: points for number, points in history.curves.items() if number in alive}
    for rung in (5, 15, 45):
        reached = [number for number, points in curves.items() if len(points) >= rung]
        beyond = [number for number in reached if len(curves[number]) > rung and number != 0]
        # At the end the leader of a rung goes on even if all places were taken by earlier arrivals.
        assert len(beyond) <= max(1, len(reached) / 3) + 1
        values = {number: curves[number][rung - 1].metrics["eval/reward"] for number in reached}
        finite = {number: value for number, value in values.items() if value is not None}
        assert not finite or len(curves[max(finite, key=finite.get)]) > rung


def test_a_job_has_an_answer_even_when_a_rule_ends_the_leaders(make_space):
    space = make_space(
        search=LR,
        budget=Budget(trials=20, parallel=2),
        start_from=(),
        prune=(ASHA, PrunerSpec(name="kl_ceiling", options={"above": 0.15, "patience": 1})),
    )
    coordinator = Coordinator(space, {}, MemoryBook(), fence="s", total_steps=60)
    simulate(coordinator, ppo.ppo_like, parallel=2, clock=ManualClock(), steps=60)
    reasons = {trial.reason.pruner for trial in coordinator.trials.values() if trial.reason}
    assert reasons == {"asha", "kl_ceiling"}
    assert coordinator.best() is not None


def test_the_evaluations_peak_is_the_result_of_a_trial_that_over_optimized(make_coordinator):
    book = MemoryBook()
    prune = (PrunerSpec(name="eval_decline", options={"min_steps": 3, "smooth": 1}),)
    coordinator = make_coordinator(book, prune=prune)
    launch = coordinator.next_trial(0.0)
    for step, value in enumerate([0.1, 0.3, 0.6, 0.45, 0.4, 0.3], start=1):
        metrics = {"eval/reward": value, "reward/mean": step / 10}
        verdict = coordinator.on_metrics(launch.attempt, step, metrics, float(step), float(step))
    assert isinstance(verdict, Stop)
    trial = coordinator.trials[0]
    assert (trial.state, trial.value, trial.reason.numbers["best_step"]) == (TrialState.COMPLETED, 0.6, 3)
    assert "completed at its peak, step 3" in book.events[-1].text
    end(coordinator, launch, last_step=6)
    assert coordinator.trials[0].state is TrialState.COMPLETED
    assert isinstance(coordinator.next_trial(9.0), Launch)
    assert coordinator.best().number == 0
