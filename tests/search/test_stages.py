"""What a stage has reached, and what the next one gets of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.search.stages import Handover, hand_over, judge_stage, reading_of, receive, with_starts
from autotune.search.types import Point, Trial
from autotune.spec.criteria import parse_criterion
from autotune.spec.domains import contains, nearest
from autotune.spec.expressions import parse
from autotune.spec.types import (
    Budget,
    Carry,
    CarrySpec,
    Choice,
    Direction,
    FloatRange,
    IntRange,
    Objective,
    Parameter,
    Stage,
    Start,
)
from autotune.states import TrialState

BASE = {"lr": 1e-3, "clip": 0.2, "epochs": 1, "kl.type": "fixed", "kl.target": 0.1, "batch": 64}


def curve(*values, metric="eval/reward", **others):
    points = []
    for step, value in enumerate(values, 1):
        metrics = {metric: value, **{name.replace("__", "/"): all_[step - 1] for name, all_ in others.items()}}
        points.append(Point(step=step, time=float(step), metrics=metrics))
    return points


def trial(number, value=None, state=TrialState.COMPLETED, source="sampler", **params):
    values = {"lr": 1e-3, **params}
    return Trial(number=number, state=state, source=source, params=values, config={**BASE, **values}, value=value)


@pytest.fixture
def stage(make_space):
    def make(*criteria, carry=None, fixed=(), **changes):
        return Stage(
            name="fast",
            space=make_space(**changes),
            criteria=tuple(parse_criterion(text) for text in criteria),
            carry=carry or CarrySpec(),
            fixed=fixed,
        )

    return make


def test_a_stage_passes_when_its_best_trial_meets_every_criterion(stage):
    trials = [trial(0, 1.0, source="default"), trial(1, 2.0)]
    curves = {0: curve(1.0, 1.0), 1: curve(1.0, 2.0)}
    verdict = judge_stage(stage("eval/reward >= 1.3 * default"), trials, curves, ())
    assert (verdict.passed, verdict.winner) == (True, 1)
    (check,) = verdict.checks
    assert check.numbers == {"eval/reward": 1.5, "default": 1.0}
    assert "eval/reward >= 1.3 * default holds (" in verdict.words("fast")


def test_the_winner_is_the_best_trial_that_meets_the_criteria_not_the_best_of_all(stage):
    trials = [trial(0, 3.0), trial(1, 2.0), trial(2, 1.0)]
    curves = {n: curve(v, kl__actor_ref=[kl]) for n, v, kl in [(0, 3.0, 0.5), (1, 2.0, 0.1), (2, 1.0, 0.1)]}
    verdict = judge_stage(stage("0.05 <= kl/actor_ref <= 0.12"), trials, curves, ())
    assert (verdict.passed, verdict.winner) == (True, 1)


def test_a_stage_that_misses_its_criterion_says_by_what_and_keeps_its_best_trial(stage):
    trials = [trial(0, 1.0, source="default"), trial(1, 1.1)]
    curves = {0: curve(1.0), 1: curve(1.1)}
    verdict = judge_stage(stage("eval/reward >= 1.3 * default"), trials, curves, ())
    assert (verdict.passed, verdict.winner) == (False, 1)
    assert "does not hold (default = 1, eval/reward = 1.1)" in verdict.words("fast") or (
        "does not hold (eval/reward = 1.1, default = 1)" in verdict.words("fast")
    )
    assert verdict.document()["checks"][0]["holds"] is False


def test_a_stage_in_which_nothing_completed_found_nothing(stage):
    trials = [trial(0, state=TrialState.INFEASIBLE), trial(1, state=TrialState.FAILED)]
    verdict = judge_stage(stage(), trials, {}, ())
    assert (verdict.passed, verdict.winner) == (False, None)
    assert "found nothing" in verdict.words("fast")


def test_a_number_that_was_never_measured_is_no_pass(stage):
    verdict = judge_stage(stage("perf/tokens_per_s >= 1.3 * default"), [trial(0, 1.0)], {0: curve(1.0)}, ())
    assert not verdict.passed
    assert "not measured" in verdict.words("fast")


def test_the_stage_before_is_compared_with_what_it_measured_itself(stage):
    before = curve(10.0, 20.0, metric="perf/tokens_per_s")
    trials, curves = [trial(0, 1.0)], {0: curve(1.0, 1.0, perf__tokens_per_s=[30.0, 30.0])}
    assert judge_stage(stage("perf/tokens_per_s >= 1.3 * previous"), trials, curves, before).passed
    assert not judge_stage(
        stage("perf/tokens_per_s >= 1.6 * previous.max.perf/tokens_per_s"), trials, curves, before
    ).passed


@pytest.mark.parametrize(
    ("name", "number"),
    [("eval/reward", 5.0), ("min.eval/reward", 1.0), ("max.eval/reward", 7.0), ("mean.eval/reward", 4.0)],
)
def test_a_reading_reduces_the_curve(name, number):
    (reading,) = parse_criterion(f"{name} > 0").readings.values()
    assert reading_of(reading, curve(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)) == number


def test_steadiness_is_that_of_the_second_half():
    (reading,) = parse_criterion("std.eval/reward < 0.05").readings.values()
    assert reading_of(reading, curve(0.0, 5.0, 1.0, 1.0)) == 0.0


def test_a_curve_that_ended_without_a_number_reads_as_nothing():
    (reading,) = parse_criterion("max.eval/reward > 0").readings.values()
    assert reading_of(reading, curve(1.0, None)) is None
    assert reading_of(reading, ()) is None


def test_the_winners_values_are_fixed_for_the_next_stage(stage):
    trials = [trial(0, 1.0, lr=2e-3), trial(1, 2.0, lr=5e-3)]
    given = hand_over(stage(), 1, trials, {1: curve(2.0)}, Handover(fixed={"batch": 32}))
    assert given.fixed == {"batch": 32, "lr": 5e-3}
    assert given.starts == ()
    later = stage(search={"clip": Parameter(path="clip", domain=FloatRange(low=0.1, high=0.3))})
    space, base = receive(later, BASE, given)
    assert (base["lr"], base["batch"], base["clip"]) == (5e-3, 32, 0.2)
    assert space.start_from == later.space.start_from


def test_a_carried_value_of_a_parameter_that_is_searched_again_becomes_its_default_inside_the_range(stage):
    later = stage(search={"lr": Parameter(path="lr", domain=FloatRange(low=1e-5, high=1e-3))})
    _, base = receive(later, BASE, Handover(fixed={"lr": 5e-3}))
    assert base["lr"] == 1e-3


def test_what_a_stage_fixes_itself_stays(stage):
    _, base = receive(stage(fixed=("batch",)), {**BASE, "batch": 128}, Handover(fixed={"batch": 32}))
    assert base["batch"] == 128


def test_the_best_few_are_the_first_that_the_next_stage_tries(stage):
    trials = [trial(n, float(n), lr=n * 1e-3, epochs=n % 3 + 1) for n in range(1, 6)]
    carry = CarrySpec(how=Carry.START, top=3, scale={"lr": 0.5}, drop=("epochs",))
    given = hand_over(stage(carry=carry), 5, trials, {}, Handover())
    assert [start.label for start in given.starts] == ["carried-5", "carried-4", "carried-3"]
    assert given.starts[0].values == {"lr": 2.5e-3}
    space, _ = receive(stage(), BASE, given)
    assert [start.label for start in space.start_from] == ["default", "carried-5", "carried-4", "carried-3"]


def test_without_a_winner_only_what_was_given_goes_on(stage):
    before = Handover(fixed={"batch": 32}, starts=(Start(label="x"),))
    assert hand_over(stage(), None, [trial(0, state=TrialState.FAILED)], {}, before) == Handover(fixed={"batch": 32})


def test_starts_are_moved_into_the_space_and_repeated_or_forbidden_ones_left_out(make_space):
    space = make_space(require=(parse("epochs <= 2"),), budget=Budget(trials=3))
    starts = [
        Start(label="far", values={"lr": 1.0, "unknown": 3}),
        Start(label="again", values={"lr": 1e-2}),
        Start(label="forbidden", values={"epochs": 4}),
        Start(label="near", values={"lr": 2e-3}),
        Start(label="too many", values={"lr": 3e-3}),
    ]
    kept = with_starts(space, BASE, starts).start_from
    assert [start.label for start in kept] == ["default", "far", "near"]
    assert kept[1].values == {"lr": 1e-2}


def test_the_direction_of_the_objective_counts(stage):
    trials = [trial(0, 3.0), trial(1, 1.0)]
    minimise = stage(objective=Objective(metric="eval/reward", direction=Direction.MINIMIZE))
    assert judge_stage(minimise, trials, {}, ()).winner == 1


@given(
    st.one_of(st.floats(-1e6, 1e6), st.integers(-(10**6), 10**6), st.text(max_size=3), st.booleans(), st.none()),
    st.sampled_from(
        [
            FloatRange(low=0.1, high=0.4),
            FloatRange(low=0.0, high=1.0, step=0.25),
            IntRange(low=1, high=9, step=2),
            Choice(options=(16, 32, 64)),
            Choice(options=("a", "b")),
        ]
    ),
)
def test_the_nearest_value_lies_in_the_domain_and_what_lies_there_stays(value, domain):
    found = nearest(domain, value)
    assert found is None or contains(domain, found)
    if contains(domain, value):
        assert found == value
