"""Ray's population based training as an explorer: who learns from whom, and what a perturbed configuration may be."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.execution.ray_pbt import RayExplorer
from autotune.search.population import Generations, Member
from autotune.spec.domains import contains
from autotune.spec.expressions import parse
from autotune.spec.types import (
    Budget,
    Choice,
    FloatRange,
    IntRange,
    Objective,
    Parameter,
    Population,
    Resources,
    Retry,
    SamplerSpec,
    Space,
    TrainerSpec,
)

BASE = {"lr": 1e-3, "epochs": 1, "batch": 64, "kind": "fixed", "target": 0.1, "total": 128}
SEARCH = {
    "lr": Parameter(path="lr", domain=FloatRange(low=1e-4, high=1e-2, log=True)),
    "epochs": Parameter(path="epochs", domain=IntRange(low=1, high=9)),
    "batch": Parameter(path="batch", domain=Choice(options=(32, 48, 64, 128))),
    "kind": Parameter(path="kind", domain=Choice(options=("fixed", "adaptive", None, True, 1))),
    "target": Parameter(path="target", domain=FloatRange(low=0.1, high=0.3, step=0.05), when=parse("kind == 'fixed'")),
}
POPULATION = Population(interval=4, quantile=0.25, resample_probability=0.5)
SPACE = Space(
    name="population",
    trainer=TrainerSpec(),
    resources=Resources(),
    search=SEARCH,
    require=(parse("total % batch == 0"),),
    objective=Objective(metric="reward/mean"),
    sampler=SamplerSpec(),
    budget=Budget(trials=8),
    retry=Retry(),
    population=POPULATION,
)


def generations(space=SPACE):
    return Generations(space, BASE, RayExplorer(POPULATION, space.search), lambda config: True)


def members(seed, scores):
    draws, rules = random.Random(seed), generations()
    found = []
    for number, score in enumerate(scores):
        values = None
        while values is None:
            values = rules.fitted(
                {
                    "lr": draws.uniform(1e-4, 1e-2),
                    "epochs": draws.randint(1, 9),
                    "batch": draws.choice((32, 64, 128)),
                    "kind": draws.choice(("fixed", "adaptive", None, True, 1)),
                    "target": draws.uniform(0.1, 0.3),
                }
            )
        found.append(Member(number=number, values=values, score=score))
    return found


def explore(found, seed=0, population=POPULATION):
    return RayExplorer(population, SEARCH).explore(found, seed, generations().fitted)


@settings(max_examples=60)
@given(
    st.integers(0, 999),
    st.lists(st.one_of(st.floats(-5, 5), st.just(-math.inf)), min_size=2, max_size=12),
    st.floats(0.01, 0.5),
)
def test_the_bottom_goes_on_from_the_top_with_values_that_keep_the_law(seed, scores, quantile):
    found = members(seed, scores)
    population = Population(interval=4, quantile=quantile, resample_probability=0.3)
    moves = explore(found, seed, population)
    size = min(math.ceil(len(found) * quantile), len(found) // 2)
    ranked = sorted(found, key=lambda member: member.score)
    bottom, top = {m.number for m in ranked[:size]}, {m.number for m in ranked[-size:]}
    assert {move.loser for move in moves} <= bottom
    assert {move.winner for move in moves} <= top
    for move in moves:
        assert scores[move.winner] > scores[move.loser]
        config = {**BASE, **move.params}
        assert all(contains(SEARCH[path].domain, value) for path, value in move.params.items())
        assert all(condition.holds(config) for condition in SPACE.require)
        assert ("target" in move.params) == (config["kind"] == "fixed")


def test_the_same_seed_decides_the_same_and_leaves_the_streams_of_others_alone():
    found = members(3, [0.1 * number for number in range(8)])
    random.seed(5)
    first = explore(found, 11)
    after = random.random()
    random.seed(5)
    assert random.random() == after
    assert explore(found, 11) == first
    assert any(explore(found, seed) != first for seed in range(5))
    assert len(first) == 2


def test_a_number_is_multiplied_and_a_choice_moves_to_a_neighbour():
    population = Population(interval=4, resample_probability=0.0, perturbation=1.5)
    found = members(1, [0.0, 1.0])
    winner = found[1].values
    for seed in range(20):
        (move,) = explore(found, seed, population)
        ratio = move.params["lr"] / winner["lr"]
        inside = 1e-4 < move.params["lr"] < 1e-2
        assert not inside or ratio == pytest.approx(1.5) or ratio == pytest.approx(1 / 1.5)
        options = SEARCH["batch"].domain.options
        assert abs(options.index(move.params["batch"]) - options.index(winner["batch"])) <= 1


def test_a_perturbation_that_nothing_accepts_leaves_the_better_configuration():
    found = members(1, [0.0, 1.0])
    (move,) = RayExplorer(POPULATION, SEARCH).explore(found, 0, lambda values: None)
    assert move.params == found[1].values


@pytest.mark.parametrize("scores", [[1.0], [0.5, 0.5], [-math.inf, -math.inf]])
def test_nobody_learns_from_somebody_who_is_no_better(scores):
    assert not explore(members(0, scores))
