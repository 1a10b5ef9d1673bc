from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.search.pruners import Median, Percentile, Plateau, Sight
from autotune.search.pruners.percentile import percentile
from autotune.search.types import Point, Trial
from autotune.spec.types import Direction, Objective
from autotune.states import TrialState

REWARD = Objective(metric="eval/reward")


def curve(values, metric="eval/reward"):
    return [Point(step=1 + i, time=0.0, metrics={metric: value}) for i, value in enumerate(values)]


def flat(value, steps=12):
    return curve([value] * steps)


def sight(points, peers=(), *, objective=REWARD, source="sampler", total_steps=100):
    return Sight(
        trial=Trial(number=99, state=TrialState.RUNNING, source=source, params={}, config={}),
        step=points[-1].step,
        curve=points,
        peers=dict(enumerate(peers)),
        objective=objective,
        total_steps=total_steps,
    )


PEERS = [flat(value / 10) for value in range(1, 9)]


def test_the_median_stops_what_is_behind_half_of_the_others():
    reason = Median(patience=1).judge(sight(flat(0.2), PEERS))
    assert reason is not None
    assert reason.numbers == {
        "keep": 50, "reached": 8, "patience": 1, "step": 12, "value": 0.2, "threshold": pytest.approx(0.45)
    }  # fmt: skip
    assert "0.2 by step 12" in reason.text
    assert Median(patience=1).judge(sight(flat(0.5), PEERS)) is None


def test_the_percentile_keeps_the_share_it_is_told_to():
    assert Percentile(keep=75, patience=1).judge(sight(flat(0.25), PEERS)) is not None
    assert Percentile(keep=75, patience=1).judge(sight(flat(0.35), PEERS)) is None
    assert Percentile(keep=25, patience=1).judge(sight(flat(0.55), PEERS)) is not None


def test_being_behind_must_last_for_the_patience():
    falls_back = curve([0.1] * 11 + [0.1])
    rising = [curve([0.0] * 11 + [0.9]) for _ in range(6)]
    assert Median(patience=2).judge(sight(falls_back, rising)) is None
    assert Median(patience=1).judge(sight(falls_back, rising)) is not None


def test_one_bad_evaluation_of_a_good_trial_stops_nothing():
    assert Median(patience=1).judge(sight(curve([0.7] * 11 + [0.0]), PEERS)) is None


def test_the_first_steps_and_too_few_others_are_no_ground():
    assert Median(patience=1).judge(sight(flat(0.1, steps=9), PEERS)) is None
    assert Median(patience=1).judge(sight(flat(0.1), PEERS[3:7])) is None
    assert Median(patience=1, min_trials=4).judge(sight(flat(0.1), PEERS[3:7])) is not None


def test_others_that_have_not_come_so_far_do_not_count():
    behind = [flat(0.9, steps=5) for _ in range(9)]
    assert Median(patience=1).judge(sight(flat(0.1), behind)) is None


def test_the_default_configuration_and_a_trial_at_its_last_step_are_left_alone():
    assert Median(patience=1).judge(sight(flat(0.1), PEERS, source="default")) is None
    assert Median(patience=1).judge(sight(flat(0.1), PEERS, total_steps=12)) is None


def test_less_may_be_better():
    objective = Objective(metric="eval/reward", direction=Direction.MINIMIZE)
    reason = Median(patience=1).judge(sight(flat(0.7), PEERS, objective=objective))
    assert reason is not None
    assert (reason.numbers["value"], reason.numbers["threshold"]) == (0.7, pytest.approx(0.45))
    assert Median(patience=1).judge(sight(flat(0.2), PEERS, objective=objective)) is None


def test_a_diverged_trial_is_behind_and_diverged_others_are_no_bar():
    reason = Median(patience=1).judge(sight(curve([None] * 12), PEERS))
    assert reason is not None
    assert "not finite" in reason.text
    assert Median(patience=1).judge(sight(flat(0.0), [curve([None] * 12)] * 6)) is None


values = st.floats(0, 1, allow_nan=False)


@given(st.lists(values, min_size=1, max_size=30), values, st.integers(0, 4), st.floats(1, 99))
def test_what_is_among_the_best_k_is_never_stopped(others, own, top, keep):
    better = sum(value > own for value in others)
    pruner = Percentile(keep=keep, patience=1, min_trials=1, protect_top=top)
    reason = pruner.judge(sight(flat(own), [flat(value) for value in others]))
    assert reason is None or better >= top
    if reason is not None:
        assert own < np.percentile(others, 100 - keep) + 1e-12


@given(st.lists(values, min_size=1, max_size=30), st.floats(0, 100))
def test_the_percentile_is_numpys(numbers, percent):
    assert percentile(numbers, percent) == pytest.approx(np.percentile(numbers, percent))


def plateau(values, peers=None, **options):
    others = [flat(1.0 + i, steps=len(values)) for i in range(3)] if peers is None else peers
    return Plateau(patience=5, min_steps=8, smooth=1, **options).judge(sight(curve(values), others))


def test_a_curve_that_has_stopped_rising_is_stopped():
    reason = plateau([0.1, 0.3, 0.5] + [0.6] * 6)
    assert reason is not None
    assert (reason.numbers["best"], reason.numbers["gain"]) == (0.6, 0.0)
    assert "has stayed at 0.6 for 5 reports" in reason.text


def test_a_curve_that_still_rises_goes_on():
    assert plateau([0.1, 0.3, 0.5] + [0.6] * 5 + [0.65]) is None


def test_a_plateau_needs_its_patience_and_its_grace():
    assert plateau([0.1, 0.3, 0.5] + [0.6] * 5) is None
    assert plateau([0.1] + [0.6] * 6) is None


def test_a_flat_trial_among_the_best_goes_on():
    values = [0.1, 0.3, 0.5] + [0.6] * 6
    assert plateau(values, peers=[flat(1.0, steps=9)] * 2) is None
    assert plateau(values, peers=[flat(1.0, steps=9)] * 2, protect_top=2) is not None
    assert plateau(values, peers=[], protect_top=0) is not None


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=40))
def test_steady_growth_is_never_a_plateau(steps):
    heights = np.cumsum(np.maximum(steps, 0.2 * max(steps)))
    assert plateau([float(height) for height in heights], peers=[]) is None
