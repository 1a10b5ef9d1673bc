from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import InvalidSpaceError
from autotune.search.pruners import KlCeiling, NotFinite, RewardCollapse, Sight, build_pruners
from autotune.search.types import Point, Trial
from autotune.spec.types import Objective, PrunerSpec
from autotune.states import TrialState

REWARD = Objective(metric="eval/reward")


def curve(metric, values, first=1):
    return [Point(step=first + i, time=0.0, metrics={metric: value}) for i, value in enumerate(values)]


def sight(points, peers=(), objective=REWARD, total_steps=30, source="sampler"):
    trial = Trial(number=99, state=TrialState.RUNNING, source=source, params={}, config={})
    return Sight(
        trial=trial,
        step=points[-1].step,
        curve=points,
        peers=dict(enumerate(peers)),
        objective=objective,
        total_steps=total_steps,
    )


def test_kl_ceiling_waits_for_its_patience():
    pruner = KlCeiling(above=0.15, patience=3)
    assert pruner.judge(sight(curve("kl/actor_ref", [0.2, 0.2]))) is None
    assert pruner.judge(sight(curve("kl/actor_ref", [0.2, 0.2, 0.1, 0.2, 0.2]))) is None
    reason = pruner.judge(sight(curve("kl/actor_ref", [0.1, 0.2, 0.3, 0.4])))
    assert reason is not None
    assert reason.numbers["value"] == 0.4


def test_kl_ceiling_forgives_the_first_steps():
    values = curve("kl/actor_ref", [0.9, 0.9, 0.9, 0.9])
    assert KlCeiling(above=0.15, patience=3, min_steps=3).judge(sight(values)) is None


def test_kl_ceiling_does_not_count_values_that_are_not_finite():
    assert KlCeiling(above=0.15, patience=2).judge(sight(curve("kl/actor_ref", [0.2, None]))) is None


def test_reward_collapse_needs_a_lasting_loss():
    pruner = RewardCollapse(drop=0.5, patience=3, smooth=1)
    assert pruner.judge(sight(curve("reward/mean", [0.2, 0.8, 0.8, 0.3, 0.3]))) is None
    assert pruner.judge(sight(curve("reward/mean", [0.2, 0.8, 0.8, 0.3, 0.5, 0.3]))) is None
    reason = pruner.judge(sight(curve("reward/mean", [0.2, 0.8, 0.8, 0.3, 0.3, 0.3])))
    assert reason is not None
    assert reason.numbers["best"] == 0.8
    assert "fell from 0.8 to 0.3" in reason.text


def test_reward_collapse_understands_negative_rewards():
    pruner = RewardCollapse(drop=0.5, patience=2, smooth=1)
    assert pruner.judge(sight(curve("reward/mean", [-2.0, -1.0, -1.0, -1.2, -1.4]))) is None
    assert pruner.judge(sight(curve("reward/mean", [-2.0, -1.0, -1.0, -1.9, -1.8]))) is not None


@given(st.lists(st.floats(0.1, 1.0), min_size=1, max_size=40))
def test_reward_collapse_never_stops_a_rising_reward(values):
    pruner = RewardCollapse(drop=0.3, patience=2)
    assert pruner.judge(sight(curve("reward/mean", sorted(values)))) is None


def test_not_finite_names_the_metrics():
    points = [Point(step=4, time=0.0, metrics={"actor/loss": None, "reward/mean": 1.0})]
    reason = NotFinite().judge(sight(points))
    assert reason is not None
    assert reason.text == "actor/loss not finite at step 4"
    assert NotFinite(patience=2).judge(sight(points)) is None


def test_pruners_are_built_in_the_order_of_the_space():
    specs = [PrunerSpec(name="not_finite"), PrunerSpec(name="asha", options={"min_steps": 5})]
    assert [pruner.name for pruner in build_pruners(specs)] == ["not_finite", "asha"]


def test_an_unknown_pruner_lists_the_known_ones():
    with pytest.raises(
        InvalidSpaceError, match="known are asha, entropy_collapse, eval_decline, extrapolate, hyperband, kl_ceiling"
    ):
        build_pruners([PrunerSpec(name="ashaa")])
    with pytest.raises(InvalidSpaceError, match="does not take these options"):
        build_pruners([PrunerSpec(name="asha", options={"steps": 5})])
