from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.clock import ManualClock
from autotune.execution.simulated import simulate
from autotune.search.book import MemoryBook
from autotune.search.coordinator import Closing, Coordinator
from autotune.search.types import Done, EndKind, Launch, Origin, Outcome, Stop, Wait
from autotune.spec.types import Budget, Finalists, FloatRange, Parameter, PrunerSpec, Resources
from autotune.states import TrialState

X = {"x": Parameter(path="x", domain=FloatRange(low=0.0, high=1.0))}


def run(make_space, *, hours, gpus=1.0, trials=30, parallel=3, steps=20, step_s=60.0, prune=(), finalists=None, seed=0):
    """A search whose steps take between half and one and a half times ``step_s``, by configuration."""

    def curve(config, number):
        for step in itertools.count(1):
            yield step_s * (0.5 + config["x"]), {"eval/reward": config["x"] * step, "seed": float(config["seed"])}

    space = make_space(
        search=X,
        budget=Budget(trials=trials, parallel=parallel, gpu_hours=hours),
        resources=Resources(gpus=gpus),
        prune=prune,
        finalists=finalists,
        start_from=(),
    )
    book = MemoryBook()
    base = {"x": 0.5, "seed": seed}
    coordinator = Coordinator(space, base, book, fence="s", total_steps=steps, seed_path="seed")
    return coordinator, simulate(coordinator, curve, parallel=parallel, clock=ManualClock(), steps=steps), book


ASHA = (PrunerSpec(name="asha", options={"min_steps": 4, "reduction_factor": 3}),)


@settings(max_examples=40, deadline=None)
@given(
    hours=st.floats(0.05, 12),
    gpus=st.sampled_from([0.5, 1.0, 4.0]),
    parallel=st.integers(1, 5),
    trials=st.integers(1, 20),
    asha=st.booleans(),
    finalists=st.sampled_from([None, Finalists(top=2, seeds=2)]),
)
def test_a_budget_is_never_exceeded_by_more_than_the_step_that_was_under_way(
    make_space, hours, gpus, parallel, trials, asha, finalists
):
    coordinator, simulated, _ = run(
        make_space, hours=hours, gpus=gpus, parallel=parallel, trials=trials, prune=ASHA if asha else (),
        finalists=finalists,
    )  # fmt: skip
    longest_step = 60 * 1.5
    assert simulated.cost_s * gpus <= hours * 3600 + parallel * longest_step * gpus + 1e-6
    assert sum(trial.cost_s for trial in coordinator.trials.values()) == pytest.approx(simulated.cost_s)
    waiting = (TrialState.RUNNING, TrialState.QUEUED, TrialState.PAUSED)
    assert not any(trial.state in waiting for trial in coordinator.trials.values())


def test_what_is_left_must_cover_a_whole_trial_before_one_starts(make_coordinator):
    coordinator = make_coordinator(
        budget=Budget(trials=9, parallel=3, gpu_hours=25 / 3600), resources=Resources(gpus=1), start_from=()
    )
    first = coordinator.next_trial(0.0)
    for step in range(1, 6):
        coordinator.on_metrics(first.attempt, step, {"eval/reward": 1.0}, float(step), float(step))
    second = coordinator.next_trial(5.0)
    assert isinstance(second, Launch)
    # 25 s: 5 spent, 5 reserved for the first, 10 for the second, and 5 are too few for a third.
    assert isinstance(coordinator.next_trial(5.0), Wait)


def test_a_pruned_trial_gives_the_rest_of_its_reservation_back(make_coordinator):
    coordinator = make_coordinator(
        budget=Budget(trials=9, parallel=3, gpu_hours=25 / 3600), resources=Resources(gpus=1), start_from=(),
        prune=(PrunerSpec(name="not_finite"),),
    )  # fmt: skip
    first, second = coordinator.next_trial(0.0), coordinator.next_trial(0.0)
    coordinator.on_metrics(first.attempt, 1, {"eval/reward": 1.0}, 1.0, 1.0)
    assert isinstance(coordinator.next_trial(1.0), Wait)
    coordinator.on_metrics(second.attempt, 1, {"eval/reward": None}, 1.0, 1.0)
    coordinator.on_end(second.attempt, Outcome(kind=EndKind.STOPPED, last_step=1, cost_s=1.0), 1.0)
    assert isinstance(coordinator.next_trial(1.0), Launch)


def test_a_silent_trial_is_charged_by_its_heartbeats_and_ended_when_the_budget_is_spent(make_coordinator):
    coordinator = make_coordinator(budget=Budget(trials=2, gpu_hours=1.0), resources=Resources(gpus=2), start_from=())
    launch = coordinator.next_trial(0.0)
    assert not isinstance(coordinator.on_heartbeat(launch.attempt, 1799.0, 1799.0), Stop)
    verdict = coordinator.on_heartbeat(launch.attempt, 1800.0, 1800.0)
    assert isinstance(verdict, Stop)
    assert verdict.reason.text == "the budget of 1 GPU-hours is spent (1 used)"
    coordinator.on_end(launch.attempt, Outcome(kind=EndKind.STOPPED, cost_s=1801.0), 1801.0)
    assert isinstance(coordinator.next_trial(1802.0), Done)
    assert coordinator.closing is Closing.GPU_HOURS
    assert coordinator.trials[0].state is TrialState.CANCELLED


def test_a_budget_that_cannot_fund_one_trial_says_what_one_takes(make_space):
    coordinator = run(make_space, hours=0.05, parallel=1)[0]
    assert len(coordinator.trials) == 1
    text = coordinator.trials[0].reason.text
    assert "the budget of 0.05 GPU-hours is spent" in text
    assert "a full trial takes about" in text


def test_with_promotion_the_rest_of_the_budget_still_pays_for_a_trial_of_full_length(make_space):
    for hours in (1.0, 1.5, 2.5, 4.0):
        coordinator, _, _ = run(make_space, hours=hours, parallel=1, prune=ASHA)
        assert any(trial.state is TrialState.COMPLETED for trial in coordinator.trials.values()), hours
        assert len(coordinator.trials) > 1


def test_part_of_the_budget_is_kept_for_the_finalists(make_space):
    coordinator = run(make_space, hours=4.0, parallel=2, finalists=Finalists(top=2, seeds=2))[0]
    fresh = [trial for trial in coordinator.trials.values() if trial.source.startswith("finalist-")]
    assert len(fresh) == 4
    assert sum(trial.state is TrialState.COMPLETED for trial in fresh) >= 3
    assert len(coordinator.trials) - len(fresh) >= 3


def test_without_a_limit_nothing_is_refused(make_space):
    coordinator, _, _ = run(make_space, hours=None)
    assert [trial.state for trial in coordinator.trials.values()] == [TrialState.COMPLETED] * 30


def test_steps_that_an_earlier_trial_has_trained_do_not_make_the_others_look_cheap(make_coordinator):
    """One that begins at step 8 of ten costs two steps, not ten for the price of two."""
    origin = Origin(directory="/earlier", step=8, name="an earlier trial")
    coordinator = make_coordinator(
        budget=Budget(trials=6, gpu_hours=20 / 3600),
        resources=Resources(gpus=1),
        descent=lambda config: origin if config["lr"] == 1e-3 else None,
    )
    launch = coordinator.next_trial(0.0)
    assert (launch.origin, coordinator.trials[0].last_step) == (origin, 8)
    for step in (9, 10):
        coordinator.on_metrics(launch.attempt, step, {"eval/reward": 1.0}, step - 8.0, float(step))
    coordinator.on_end(launch.attempt, Outcome(kind=EndKind.FINISHED, last_step=10, cost_s=2.0), 11.0)
    second = coordinator.next_trial(12.0)
    assert isinstance(second, Launch), "12 of 20 seconds would be reserved"
    for step in range(1, 11):
        coordinator.on_metrics(second.attempt, step, {"eval/reward": 1.0}, float(step), 12.0 + step)
    coordinator.on_end(second.attempt, Outcome(kind=EndKind.FINISHED, last_step=10, cost_s=10.0), 23.0)
    assert isinstance(coordinator.next_trial(24.0), Done), "8 seconds are left, and a trial takes 10"
