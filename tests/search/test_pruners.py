from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import InvalidSpaceError
from autotune.search.pruners import Asha, KlCeiling, NotFinite, RewardCollapse, Sight, build_pruners
from autotune.search.types import Point, Trial
from autotune.spec.types import Direction, Objective, PrunerSpec
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


def flat(value, steps=10):
    return curve("eval/reward", [value] * steps)


def test_asha_has_rungs_below_the_full_length_only():
    assert Asha(min_steps=10, reduction_factor=3).rungs(90) == [10, 30]
    assert Asha(min_steps=10, reduction_factor=3).rungs(91) == [10, 30, 90]


def test_asha_stops_what_is_not_among_the_best_third_at_a_rung():
    pruner = Asha(min_steps=10)
    peers = [flat(0.5), flat(0.6)]
    reason = pruner.judge(sight(flat(0.4), peers))
    assert reason is not None
    assert reason.numbers == {"rung": 10, "value": 0.4, "rank": 3, "reached": 3, "threshold": 0.6}
    assert pruner.judge(sight(flat(0.7), peers)) is None


def test_asha_judges_at_the_rung_only_and_only_once():
    pruner = Asha(min_steps=10)
    peers = [flat(0.5), flat(0.6)]
    assert pruner.judge(sight(flat(0.1, steps=9), peers)) is None
    assert pruner.judge(sight(flat(0.1, steps=11), peers)) is None


def test_asha_lets_everybody_pass_until_enough_have_reached_the_rung():
    assert Asha(min_steps=10).judge(sight(flat(0.1), [flat(0.9)])) is None


def test_asha_never_stops_the_default_configuration():
    peers = [flat(0.5), flat(0.6), flat(0.7)]
    assert Asha(min_steps=10).judge(sight(flat(0.1), peers, source="default")) is None


def test_asha_compares_with_the_value_a_peer_had_at_the_rung_not_later():
    late_bloomers = [curve("eval/reward", [0.1] * 10 + [0.9] * 5), curve("eval/reward", [0.2] * 10 + [0.9] * 5)]
    assert Asha(min_steps=10).judge(sight(flat(0.3), late_bloomers)) is None


def test_asha_can_minimise():
    objective = Objective(metric="eval/reward", direction=Direction.MINIMIZE)
    peers = [flat(0.5), flat(0.6)]
    assert Asha(min_steps=10).judge(sight(flat(0.4), peers, objective)) is None
    assert Asha(min_steps=10).judge(sight(flat(0.7), peers, objective)) is not None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.floats(2, 5))
def test_asha_keeps_at_most_its_share_of_those_it_judged(values, factor):
    pruner = Asha(min_steps=5, reduction_factor=factor)
    peers = []
    kept = 0
    for value in values:
        points = flat(value, steps=5)
        if pruner.judge(sight(points, peers)) is None and len(peers) + 1 >= factor:
            kept += 1
            best = sorted((p[-1].metrics["eval/reward"] for p in [*peers, points]), reverse=True)
            assert value >= best[max(1, int(len(best) / factor)) - 1]
        peers.append(points)
    assert kept <= len(values)


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
    with pytest.raises(InvalidSpaceError, match="known are asha, kl_ceiling, not_finite, reward_collapse"):
        build_pruners([PrunerSpec(name="ashaa")])
    with pytest.raises(InvalidSpaceError, match="does not take these options"):
        build_pruners([PrunerSpec(name="asha", options={"steps": 5})])
