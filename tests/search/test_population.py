"""A population in the coordinator: generations, exploits, and what survives a restart."""

from __future__ import annotations

import pytest

from autotune.clock import ManualClock
from autotune.execution.simulated import simulate
from autotune.search.book import MemoryBook
from autotune.search.closing import Closing
from autotune.search.population import Exploit
from autotune.search.types import Continue, EndKind, Outcome, Pause, Wait
from autotune.spec.expressions import parse
from autotune.spec.types import Budget, FloatRange, Parameter, Population, Start
from autotune.states import TrialState

RATES = (1e-4, 2e-4, 3e-4, 4e-4)


class WorstFromBest:
    """The worst member goes on from the best one with its learning rate doubled."""

    def explore(self, members, seed, accept):
        standing = sorted(members, key=lambda member: member.score)
        worst, best = standing[0], standing[-1]
        params = accept({**best.values, "lr": best.values["lr"] * 2})
        return [Exploit(loser=worst.number, winner=best.number, params=params or best.values)]


@pytest.fixture
def study(make_coordinator):
    def make(book=None, parallel=4, **changes):
        options = {
            "search": {"lr": Parameter(path="lr", domain=FloatRange(low=1e-4, high=1e-2, log=True))},
            "population": Population(interval=4),
            "budget": Budget(trials=4, parallel=parallel),
            "start_from": tuple(Start(label=f"start-{n}", values={"lr": rate}) for n, rate in enumerate(RATES, 1)),
            "explorer": WorstFromBest(),
        }
        return make_coordinator(book, total_steps=12, **{**options, **changes})

    return make


def reward(config, step):
    return {"eval/reward": step * config["lr"]}


def run_to(coordinator, launch, step, value, begin=1):
    for reached in range(begin, step + 1):
        metrics = {"eval/reward": value}
        verdict = coordinator.on_metrics(launch.attempt, reached, metrics, float(reached), float(reached))
    return verdict


def end(coordinator, launch, step=4):
    outcome = Outcome(kind=EndKind.FINISHED, last_step=step, cost_s=float(step))
    coordinator.on_end(launch.attempt, outcome, 50.0)


def first_generation(coordinator, values=(0.1, 0.2, 0.3, 0.4)):
    launches = [coordinator.next_trial(0.0) for _ in values]
    for launch, value in zip(launches, values, strict=True):
        assert isinstance(run_to(coordinator, launch, 4, value), Pause)
        end(coordinator, launch)
    return launches


def test_members_pause_at_the_interval_and_the_worst_goes_on_from_the_best(study):
    book = MemoryBook()
    coordinator = study(book)
    launches = first_generation(coordinator)
    assert [launch.until_step for launch in launches] == [4] * 4
    again = coordinator.next_trial(60.0)
    assert again.attempt.trial == 0
    assert (again.origin.directory, again.origin.step, again.origin.replaces) == ("0003", 4, True)
    assert again.config["lr"] == 8e-4
    assert again.until_step == 8
    exploited = next(event for event in book.events if event.kind == "trial.exploited")
    assert exploited.data == {"from": 3, "step": 4, "before": {"lr": 1e-4}, "after": {"lr": 8e-4}}
    assert "trial 0 goes on from step 4 of trial 3: lr 0.0001 -> 0.0008" in exploited.text
    assert coordinator.trials[0].source == "pbt-3@4"
    assert [coordinator.trials[n].params["lr"] for n in (1, 2, 3)] == list(RATES[1:])


def test_a_checkpoint_stays_untouched_until_the_other_trial_has_taken_it_over(study):
    coordinator = study()
    first_generation(coordinator)
    loser = coordinator.next_trial(60.0)
    others = [coordinator.next_trial(60.0) for _ in range(2)]
    assert [launch.attempt.trial for launch in others] == [1, 2]
    assert isinstance(coordinator.next_trial(60.0), Wait)
    assert isinstance(run_to(coordinator, loser, 5, 0.4, begin=5), Continue)
    assert coordinator.next_trial(61.0).attempt.trial == 3


def test_a_retry_before_the_first_step_takes_over_again_and_one_after_it_does_not(study):
    coordinator = study()
    first_generation(coordinator)
    loser = coordinator.next_trial(60.0)
    coordinator.on_end(loser.attempt, Outcome(kind=EndKind.CRASH, last_step=4), 61.0)
    again = coordinator.next_trial(70.0)
    assert (again.attempt.trial, again.origin.step) == (0, 4)
    run_to(coordinator, again, 5, 0.4, begin=5)
    coordinator.on_end(again.attempt, Outcome(kind=EndKind.CRASH, last_step=5), 71.0)
    launches = [coordinator.next_trial(90.0) for _ in range(4)]
    assert next(launch for launch in launches if launch.attempt.trial == 0).origin is None


def test_the_next_generation_waits_for_everybody_also_when_one_runs_at_a_time(study):
    coordinator = study(parallel=1)
    for number, value in enumerate((0.1, 0.2, 0.3, 0.4)):
        launch = coordinator.next_trial(0.0)
        assert (launch.attempt.trial, launch.origin) == (number, None)
        run_to(coordinator, launch, 4, value)
        assert all(trial.source.startswith("start") for trial in coordinator.trials.values())
        if number < 3:
            end(coordinator, launch)
    assert isinstance(coordinator.next_trial(8.0), Wait)  # the last process has not ended
    end(coordinator, launch)
    assert coordinator.next_trial(9.0).origin.directory == "0003"


def test_a_member_that_is_infeasible_leaves_a_smaller_population(study):
    coordinator = study()
    launches = [coordinator.next_trial(0.0) for _ in range(4)]
    coordinator.on_end(launches[0].attempt, Outcome(kind=EndKind.OUT_OF_MEMORY, last_step=1), 1.0)
    for launch, value in zip(launches[1:], (0.2, 0.3, 0.4), strict=True):
        run_to(coordinator, launch, 4, value)
        end(coordinator, launch)
    assert coordinator.next_trial(60.0).attempt.trial == 1
    assert coordinator.trials[0].state is TrialState.INFEASIBLE


@pytest.mark.parametrize(("default", "loser", "origin"), [(0.05, 1, "0003"), (0.5, 1, "0000")])
def test_the_default_keeps_its_values_and_may_be_followed(study, default, loser, origin):
    starts = (Start(label="default"), *(Start(label=f"start-{rate}", values={"lr": rate}) for rate in RATES[1:]))
    coordinator = study(start_from=starts)
    first_generation(coordinator, values=(default, 0.2, 0.3, 0.4))
    launch = coordinator.next_trial(60.0)
    assert (launch.attempt.trial, launch.origin.directory) == (loser, origin)
    assert (coordinator.trials[0].source, coordinator.trials[0].params) == ("default", {"lr": 1e-3})


def test_an_objective_that_is_not_finite_stands_last(study):
    coordinator = study()
    first_generation(coordinator, values=(0.1, None, 0.3, 0.4))
    assert coordinator.next_trial(60.0).attempt.trial == 1


def test_a_successor_decides_the_same_in_the_middle_of_a_generation(study):
    class Dying(MemoryBook):
        left = 1

        def save(self, trial, points=(), events=()):
            if trial.reason is not None and "released" in trial.reason.numbers:
                if not self.left:
                    raise ConnectionError
                self.left -= 1
            super().save(trial, points, events)

    book = Dying()
    first_generation(coordinator := study(book))
    with pytest.raises(ConnectionError):
        coordinator.next_trial(60.0)
    book.left = 99
    successor = study(book, fence="u")
    successor.recover(70.0)
    uninterrupted = study()
    first_generation(uninterrupted)
    for coordinator in (successor, uninterrupted):
        coordinator.next_trial(71.0)
    kept = [[(t.source, t.params, t.last_step) for t in one.trials.values()] for one in (successor, uninterrupted)]
    assert kept[0] == kept[1]
    assert sum(event.kind == "trial.exploited" for event in book.events) == 1


def test_what_the_conditions_or_the_check_refuse_is_taken_over_unperturbed(study):
    coordinator = study(require=(parse("lr <= 5e-4"),))
    first_generation(coordinator)
    assert coordinator.next_trial(60.0).config["lr"] == 4e-4
    checked = study(check=lambda config: ["too high"] if config["lr"] > 5e-4 else [])
    first_generation(checked)
    assert checked.next_trial(60.0).config["lr"] == 4e-4


def test_a_value_outside_its_range_is_moved_to_the_end_of_it(study):
    high = {"lr": Parameter(path="lr", domain=FloatRange(low=1e-4, high=6e-4, log=True))}
    coordinator = study(search=high)
    first_generation(coordinator)
    assert coordinator.next_trial(60.0).config["lr"] == 6e-4


@pytest.mark.parametrize("parallel", [1, 2, 4])
def test_a_whole_population_runs_to_its_end_on_the_virtual_clock(study, parallel):
    book = MemoryBook()
    coordinator = study(book, parallel=parallel)

    def curve(config, _):
        for step in range(1, 13):
            yield 1.0, reward(config, step)

    run = simulate(coordinator, curve, parallel=parallel, clock=ManualClock(0.0), steps=12)
    assert [trial.state for trial in coordinator.trials.values()] == [TrialState.COMPLETED] * 4
    assert run.cost_s == 4 * 12
    assert sum(event.kind == "trial.exploited" for event in book.events) == 2
    assert [[point.step for point in curve] for curve in coordinator.curves.values()] == [list(range(1, 13))] * 4
    assert coordinator.best().params["lr"] == 1.6e-3


def test_members_that_wait_end_with_a_job_that_is_stopped_and_say_why(study):
    coordinator = study(parallel=1)
    launch = coordinator.next_trial(0.0)
    run_to(coordinator, launch, 4, 0.1)
    coordinator.close(Closing.STOPPED)
    end(coordinator, launch)
    coordinator.next_trial(9.0)
    trial = coordinator.trials[0]
    assert (trial.state, trial.reason.pruner) == (TrialState.PRUNED, "pbt")
    assert "waited at step 4" in trial.reason.text


def test_a_population_without_an_explorer_is_refused(study):
    with pytest.raises(ValueError, match="needs an explorer"):
        study(explorer=None)
