from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.search.pruners import EntropyCollapse, EvalDecline, KlSlope, LengthBlowup, Sight, ThroughputFloor
from autotune.search.pruners.windows import slope
from autotune.search.types import Point, Trial
from autotune.spec.types import Direction, Objective
from autotune.states import TrialState


def curve(**metrics):
    columns = {name.replace("__", "/"): values for name, values in metrics.items()}
    count = max(len(values) for values in columns.values())
    return [
        Point(
            step=1 + i, time=0.0,
            metrics={name: values[i] for name, values in columns.items() if i < len(values) and values[i] != "-"},
        )
        for i in range(count)
    ]  # fmt: skip


def judge(pruner, points, direction=Direction.MAXIMIZE):
    return pruner.judge(
        Sight(
            trial=Trial(number=0, state=TrialState.RUNNING, source="sampler", params={}, config={}),
            step=points[-1].step,
            curve=points,
            peers={},
            objective=Objective(metric="eval/reward", direction=direction),
            total_steps=100,
        )
    )


def test_kl_that_climbs_steeply_is_stopped_below_any_ceiling():
    pruner = KlSlope(above=0.01, window=4, patience=2, min_steps=1)
    steep = curve(kl__actor_ref=[0.02 * i for i in range(5)])
    reason = judge(pruner, steep)
    assert reason is not None
    assert reason.numbers["slope"] == pytest.approx(0.02)
    assert "grew by 0.02 per step, faster than 0.01" in reason.text
    assert judge(pruner, curve(kl__actor_ref=[0.005 * i for i in range(9)])) is None
    assert judge(pruner, steep[:4]) is None


def test_one_jump_of_kl_is_no_slope_for_longer_than_its_window():
    pruner = KlSlope(above=0.01, window=4, patience=4, min_steps=1)
    jump = [0.0] * 6 + [0.1] * 6
    assert not any(judge(pruner, curve(kl__actor_ref=jump[:end])) for end in range(1, 13))


def test_the_kl_slope_forgives_the_first_steps_and_waits_out_what_is_not_finite():
    steep = [0.02 * i for i in range(9)]
    assert judge(KlSlope(above=0.01, window=4, patience=2, min_steps=9), curve(kl__actor_ref=steep)) is None
    assert judge(KlSlope(above=0.01, window=4, patience=2, min_steps=8), curve(kl__actor_ref=steep)) is not None
    broken = [*steep[:-1], None]
    assert judge(KlSlope(above=0.01, window=4, patience=2, min_steps=1), curve(kl__actor_ref=broken)) is None


@given(st.floats(-1, 1), st.floats(-1, 1), st.lists(st.integers(0, 50), min_size=2, max_size=20, unique=True))
def test_the_slope_of_a_line_is_its_slope(height, rise, steps):
    points = [(step, height + rise * step) for step in sorted(steps)]
    assert slope(points) == pytest.approx(rise, abs=1e-9)


def test_entropy_that_is_gone_is_stopped_with_what_it_began_with():
    pruner = EntropyCollapse(left=0.25, patience=3, smooth=1, min_steps=2)
    reason = judge(pruner, curve(actor__entropy=[2.0, 1.0, 0.4, 0.3, 0.2]))
    assert reason is not None
    assert (reason.numbers["first"], reason.numbers["floor"], reason.numbers["value"]) == (2.0, 0.5, 0.2)
    assert judge(pruner, curve(actor__entropy=[2.0, 1.0, 0.4, 0.6, 0.2, 0.2])) is None
    assert judge(pruner, curve(actor__entropy=[2.0, 1.0, 0.4, 0.3])) is None


def test_entropy_that_never_was_there_cannot_collapse():
    assert judge(EntropyCollapse(patience=2, smooth=1, min_steps=1), curve(actor__entropy=[0.0] * 9)) is None
    assert judge(EntropyCollapse(patience=2, smooth=1, min_steps=1), curve(reward__mean=[0.0] * 9)) is None


def test_responses_that_grow_without_end_are_stopped():
    pruner = LengthBlowup(factor=2, patience=2, smooth=1, min_steps=2)
    reason = judge(pruner, curve(response__length_mean=[10.0, 15.0, 21.0, 30.0]))
    assert reason is not None
    assert (reason.numbers["ceiling"], reason.numbers["value"]) == (20.0, 30.0)
    assert judge(pruner, curve(response__length_mean=[10.0, 15.0, 21.0, 19.0, 30.0])) is None


def test_a_slow_trial_is_stopped_after_its_grace():
    pruner = ThroughputFloor(below=100, patience=2, smooth=1, min_steps=3)
    assert judge(pruner, curve(perf__tokens_per_s=[10.0, 10.0, 200.0, 90.0])) is None
    reason = judge(pruner, curve(perf__tokens_per_s=[10.0, 10.0, 200.0, 90.0, 80.0]))
    assert reason is not None
    assert "below 100 for 2 reports in a row, 80 at step 5" in reason.text


positive = st.lists(st.floats(0.5, 1.0), min_size=1, max_size=30)


@given(positive)
def test_a_metric_that_stays_near_its_beginning_trips_no_relative_rule(values):
    assert judge(EntropyCollapse(left=0.4), curve(actor__entropy=values)) is None
    assert judge(LengthBlowup(factor=2.01), curve(response__length_mean=values)) is None


PEAK = [0.1, 0.3, 0.5, 0.6, 0.45, 0.4, 0.3]
RISING = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]


def decline(evaluation=PEAK, reward=RISING, direction=Direction.MAXIMIZE, **options):
    pruner = EvalDecline(**{"patience": 3, "smooth": 1, "min_steps": 3, **options})
    return judge(pruner, curve(eval__reward=evaluation, reward__mean=reward), direction)


def test_an_evaluation_that_falls_while_the_reward_rises_is_a_peak_passed():
    reason = decline()
    assert reason is not None
    assert (reason.numbers["best"], reason.numbers["best_step"], reason.numbers["value"]) == (0.6, 4, 0.3)
    assert (reason.numbers["reward_before"], reason.numbers["reward_since"]) == pytest.approx((0.4, 0.5))
    assert "fell from 0.6 at step 4 to 0.3 and stayed below 0.48 for 3 reports, until step 7, while" in reason.text


def test_a_reward_that_falls_too_is_another_rules_affair():
    assert decline(reward=RISING[:4] + RISING[3::-1]) is None


def test_the_fall_must_last_and_be_deep_enough():
    assert decline([0.1, 0.3, 0.6, 0.45, 0.4, 0.5, 0.3]) is None
    assert decline([0.1, 0.3, 0.6, 0.45, 0.4, 0.45, 0.3]) is not None
    assert decline([0.1, 0.3, 0.5, 0.6, 0.59, 0.58, 0.57]) is None
    assert decline([0.1, 0.3, 0.5, 0.6, 0.59, 0.58, 0.57], drop=0.01) is not None
    assert decline(min_steps=8) is None


def test_a_policy_that_lost_everything_at_once_is_found_though_it_falls_no_more():
    assert decline([0.6, 0.02, 0.01, 0.01, 0.01, 0.01, 0.01]) is not None


def test_smoothing_needs_a_lasting_fall():
    noisy = [0.1, 0.5, 0.6, 0.55, 0.5, 0.45, 0.6]
    assert decline(noisy, smooth=2, patience=2) is None
    assert decline([*PEAK, 0.2], [*RISING, 0.8], smooth=2, patience=3) is not None


def test_evaluations_that_happen_now_and_then_are_judged_when_they_happen():
    sparse = [0.1, "-", 0.6, "-", 0.4, "-", 0.2]
    assert decline(sparse, patience=2) is not None
    assert decline([*sparse, "-"], [*RISING, 0.8], patience=2) is None


def test_where_less_is_better_a_rise_is_the_decline():
    assert decline([-value for value in PEAK], direction=Direction.MINIMIZE) is not None
    assert decline(sorted(PEAK, reverse=True), direction=Direction.MINIMIZE) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.lists(st.floats(0, 1), min_size=30, max_size=30))
def test_an_evaluation_that_never_falls_is_never_a_decline(evaluation, reward):
    assert decline(sorted(evaluation), reward[: len(evaluation)], drop=0.0) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_the_best_step_is_a_step_that_was_evaluated_before_now(evaluation):
    reason = decline(evaluation, [float(i) for i in range(len(evaluation))], drop=0.0)
    if reason is not None:
        assert 1 <= reason.numbers["best_step"] <= len(evaluation) - 3
        assert reason.numbers["best"] == max(evaluation)
