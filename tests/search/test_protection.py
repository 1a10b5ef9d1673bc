"""What is among the best k is never stopped for its reward alone, whatever rule is asked."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.search.pruners import Asha, Extrapolate, Hyperband, Median, Percentile, Plateau, RewardCollapse, Sight
from autotune.search.types import Point, Trial
from autotune.spec.types import Objective
from autotune.states import TrialState

STEPS = 24
RULES = {
    "asha": Asha(min_steps=8, mode="stop"),
    "hyperband": Hyperband(min_steps=8, mode="stop", brackets=1),
    "median": Median(patience=1, min_trials=1, min_steps=4),
    "percentile": Percentile(keep=10, patience=1, min_trials=1, min_steps=4),
    "plateau": Plateau(patience=4, min_steps=4),
    "extrapolate": Extrapolate(patience=1, min_steps=4, every=1),
    "reward_collapse": RewardCollapse(drop=0.2, patience=2),
}


def curve(values):
    return [
        Point(step=i, time=0.0, metrics={"eval/reward": v, "reward/mean": v}) for i, v in enumerate(values, start=1)
    ]


def sight(own, peers):
    points = [curve(peer) for peer in peers]
    return Sight(
        trial=Trial(number=99, state=TrialState.RUNNING, source="sampler", params={}, config={}),
        step=len(own),
        curve=curve(own),
        peers=dict(enumerate(points)),
        objective=Objective(metric="eval/reward"),
        total_steps=STEPS,
        trials={
            number: Trial(
                number=number, state=TrialState.COMPLETED, source="sampler", params={}, config={}, value=peer[-1]
            )
            for number, peer in enumerate(peers)
        },
    )


VALUES = st.floats(0.0, 1.0).map(lambda value: round(value, 3))


@pytest.mark.parametrize("name", sorted(RULES))
@given(
    own=st.lists(VALUES, min_size=8, max_size=20),
    peers=st.lists(st.lists(VALUES, min_size=STEPS, max_size=STEPS), min_size=4, max_size=8),
)
@settings(max_examples=40, deadline=None)
def test_no_rule_on_the_reward_stops_one_of_the_best_three_at_its_step(name, own, peers):
    rank = 1 + sum(peer[len(own) - 1] > own[-1] for peer in peers)
    if rank <= 3:
        assert RULES[name].judge(sight(own, peers)) is None


FALLEN = [0.9] * 6 + [0.5, 0.45, 0.4, 0.4]
RISING = [[0.1 + 0.03 * step for step in range(STEPS)] for _ in range(5)]


@pytest.mark.parametrize("name", sorted(RULES))
def test_without_protection_each_of_these_rules_does_stop_such_a_trial(name):
    """The law above must not hold because a rule never fires."""
    own = {"plateau": [0.39] * 10, "reward_collapse": FALLEN}.get(name, [0.39] * 8)
    better = [[0.395 + 0.02 * step for step in range(STEPS)] for _ in range(2)]
    worse = [[0.1] * STEPS for _ in range(1 if name == "median" else 3)]
    bare = dataclasses.replace(RULES[name], protect_top=0)
    view = sight(own, [*better, *worse])
    assert bare.judge(view) is not None
    assert RULES[name].judge(view) is None


def test_the_first_trials_of_a_job_may_still_collapse():
    assert RULES["reward_collapse"].judge(sight(FALLEN, RISING[:2])) is not None
    assert RULES["reward_collapse"].judge(sight(FALLEN, [[0.1] * STEPS] * 4)) is None
