from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import InvalidSpaceError
from autotune.search import samplers
from autotune.search.curves import Curve
from autotune.search.proposer import Proposer
from autotune.search.samplers import SAMPLERS, automatic, history
from autotune.search.samplers.grid import LEVELS, grid, levels
from autotune.search.samplers.history import Past
from autotune.search.types import Point, Reason, Trial
from autotune.spec import expressions
from autotune.spec.domains import contains
from autotune.spec.types import Budget, Choice, Constraint, FloatRange, IntRange, Parameter, SamplerSpec
from autotune.states import TrialState

UNIT = {name: Parameter(path=name, domain=FloatRange(low=0.0, high=1.0)) for name in ("x", "y")}
BASE = {"x": 0.5, "y": 0.5, "kind": "a"}


def trial(number, params, value=None, state=TrialState.COMPLETED):
    completed = state is TrialState.COMPLETED
    return Trial(
        number=number, state=state, source="sampler", params=params, config=params, value=value if completed else None
    )


def curve(*values):
    return Curve(Point(step=i, time=0.0, metrics={"eval/reward": v}) for i, v in enumerate(values, start=1))


def bowl(params):
    return -((params["x"] - 0.3) ** 2) - (params["y"] - 0.7) ** 2


def search(space, count, value=bowl):
    """The configurations of a search in which every trial completes at once, in order."""
    proposer, trials, curves = Proposer(space, BASE), [], {}
    for number in range(count):
        params = proposer.propose(number, trials, curves)
        trials.append(trial(number, params, value(params)))
        curves[number] = curve(value(params))
    return [dict(one.params) for one in trials]


@pytest.mark.parametrize("name", sorted(set(SAMPLERS) - {"gp", "auto"}))
def test_every_sampler_stays_inside_the_space_and_its_conditions(make_space, name):
    space = make_space(
        search={
            "x": UNIT["x"],
            "kind": Parameter(path="kind", domain=Choice(options=("a", "b"))),
            "y": Parameter(path="y", domain=IntRange(low=1, high=64, log=True), when=expressions.parse("kind == 'b'")),
        },
        require=(expressions.parse("x >= 0.25"),),
        sampler=SamplerSpec(name=name, seed=5),
        budget=Budget(trials=30),
    )
    for params in search(space, 30, lambda p: p["x"]):
        assert params["x"] >= 0.25
        assert ("y" in params) == (params["kind"] == "b")
        assert all(contains(space.search[path].domain, value) for path, value in params.items())


@pytest.mark.parametrize("name", ["nsga2", "qmc", "grid", "tpe"])
def test_a_sampler_forgets_nothing_when_it_is_built_anew(make_space, name):
    space = make_space(search=UNIT, sampler=SamplerSpec(name=name, seed=3), budget=Budget(trials=40))
    whole = search(space, 40)
    trials = [trial(number, params, bowl(params)) for number, params in enumerate(whole)]
    curves = {one.number: curve(one.value) for one in trials}
    for number in (1, 20, 39):
        assert Proposer(space, BASE).propose(number, trials[:number], curves) == whole[number]


@pytest.mark.parametrize(("name", "trials"), [("tpe", 96), ("nsga2", 192)])
def test_a_sampler_that_learns_ends_nearer_to_the_best_than_random(make_space, name, trials):
    def distance(sampler, seed):
        space = make_space(search=UNIT, sampler=SamplerSpec(name=sampler, seed=seed), budget=Budget(trials=trials))
        return sum(-bowl(params) for params in search(space, trials)[-trials // 4 :])

    assert sum(distance(name, seed) for seed in range(3)) < 0.6 * sum(distance("random", seed) for seed in range(3))


def test_the_gaussian_process_finds_the_best_in_few_trials_and_avoids_what_cannot_work(make_space):
    pytest.importorskip("torch")
    space = make_space(search=UNIT, sampler=SamplerSpec(name="gp", seed=1), budget=Budget(trials=14))
    tried = search(space, 14)
    assert max(bowl(params) for params in tried[8:]) > -0.01
    points = [{"x": i / 12, "y": 0.5} for i in range(13)]
    broken = [p["x"] > 0.5 for p in points]
    trials = [
        trial(i, p, p["x"], TrialState.INFEASIBLE if bad else TrialState.COMPLETED)
        for i, (p, bad) in enumerate(zip(points, broken, strict=True))
    ]
    curves = {one.number: curve(one.value) for one in trials if one.value is not None}
    proposals = [Proposer(space, BASE).propose(number, trials, curves)["x"] for number in range(13, 15)]
    assert all(x < 0.6 for x in proposals)


def test_sobol_puts_one_trial_into_each_slice_of_each_parameter(make_space):
    space = make_space(search=UNIT, sampler=SamplerSpec(name="qmc", seed=2), budget=Budget(trials=64))
    proposals = search(space, 64)
    for name in UNIT:
        assert sorted(int(params[name] * 64) for params in proposals) == list(range(64))


grid_domains = st.one_of(
    st.integers(1, 9).map(lambda n: Choice(options=tuple(f"o{i}" for i in range(n)))),
    st.tuples(st.integers(1, 9), st.integers(0, 30), st.booleans()).map(
        lambda t: IntRange(low=t[0], high=t[0] + t[1], log=t[2])
    ),
    st.tuples(st.floats(0.1, 1), st.floats(0.1, 9), st.booleans()).map(
        lambda t: FloatRange(low=t[0], high=t[0] + t[1], log=t[2])
    ),
    st.integers(1, 20).map(lambda n: FloatRange(low=0.0, high=0.25 * n, step=0.25)),
)


@settings(max_examples=60)
@given(st.lists(grid_domains, min_size=1, max_size=3), st.integers(0, 5))
def test_the_grid_has_every_combination_once_and_lies_in_the_space(domains, seed):
    parameters = tuple(Parameter(path=f"p{i}", domain=domain) for i, domain in enumerate(domains))
    points = [tuple(point.values()) for point in grid(parameters, seed)]
    assert len(points) == len(set(points)) == math.prod(len(levels(domain)) for domain in domains)
    assert all(contains(d, v) for point in points for d, v in zip(domains, point, strict=True))


def test_the_grid_takes_the_ends_of_a_range_and_even_steps_between():
    assert levels(FloatRange(low=0.0, high=1.0)) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert levels(FloatRange(low=1e-4, high=1.0, log=True)) == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1, 1.0])
    assert levels(IntRange(low=1, high=4)) == [1, 2, 3, 4]
    assert len(levels(Choice(options=tuple("abcdefgh")))) > LEVELS


def test_the_first_points_of_a_grid_differ_in_every_parameter():
    parameters = tuple(Parameter(path=name, domain=Choice(options=tuple("abcde"))) for name in "xyz")
    first = [point for _, point in zip(range(12), grid(parameters, 0), strict=False)]
    assert all(len({point[name] for point in first}) >= 4 for name in "xyz")


def test_auto_takes_the_gaussian_process_only_where_it_is_at_home(make_space, monkeypatch):
    monkeypatch.setattr(samplers, "_missing", lambda packages: [])
    small = {"search": UNIT, "sampler": SamplerSpec(name="auto"), "budget": Budget(trials=60)}
    assert automatic(make_space(**small)) == "gp"
    assert automatic(make_space(**{**small, "budget": Budget(trials=101)})) == "tpe"
    choice = {**UNIT, "kind": Parameter(path="kind", domain=Choice(options=("a", "b")))}
    assert automatic(make_space(**{**small, "search": choice})) == "tpe"
    sometimes = {**UNIT, "z": Parameter(path="z", domain=IntRange(low=1, high=2), when=expressions.parse("x > 0.5"))}
    assert automatic(make_space(**{**small, "search": sometimes})) == "tpe"
    monkeypatch.setattr(samplers, "_missing", lambda packages: ["torch"])
    assert automatic(make_space(**small)) == "tpe"


def test_a_sampler_whose_packages_are_missing_says_so_with_the_fix(make_space, monkeypatch):
    monkeypatch.setattr(samplers, "_missing", lambda packages: list(packages))
    space = make_space(search=UNIT, sampler=SamplerSpec(name="gp"))
    with pytest.raises(InvalidSpaceError, match="'gp' needs torch and scipy, which is not installed") as caught:
        Proposer(space, BASE).propose(0, [], {})
    assert "pip install torch scipy" in caught.value.hint


def at_one_step(make_space, trials, curves, enough, **changes):
    space = make_space(search=UNIT, **changes)
    return Past(space).at_one_step(trials, curves, enough)


def test_trials_of_different_lengths_are_compared_at_the_latest_step_that_enough_have_reached(make_space):
    params = {"x": 0.1, "y": 0.2}
    trials = [
        trial(0, params, 0.9),
        trial(1, params, state=TrialState.PAUSED),
        trial(2, params, state=TrialState.PRUNED),
        trial(3, params, state=TrialState.RUNNING),
        trial(4, params, state=TrialState.RUNNING),
        trial(5, params, state=TrialState.FAILED),
    ]
    curves = {0: curve(0.1, 0.5, 0.7, 0.9), 1: curve(0.2, 0.6), 2: curve(0.05), 3: curve(0.1, 0.4, 0.5)}
    found = at_one_step(make_space, trials, curves, 3)
    assert [(one.number - 64, one.value) for one in found] == [(0, 0.5), (1, 0.6), (2, 0.05), (3, 0.4), (4, None)]
    assert [one.state.name for one in found] == ["COMPLETE"] * 4 + ["RUNNING"]
    alone = at_one_step(make_space, trials, curves, 1)
    assert [one.value for one in alone] == [0.9, None, 0.05, None, None]


def test_a_configuration_that_cannot_work_is_the_worst_and_breaks_a_constraint(make_space):
    params = {"x": 0.1, "y": 0.2}
    trials = [trial(0, params, 0.5), trial(1, params, 0.3), trial(2, params, state=TrialState.INFEASIBLE)]
    found = at_one_step(make_space, trials, {0: curve(0.5), 1: curve(0.3)}, 2)
    assert [one.value for one in found] == [0.5, 0.3, 0.3]
    assert [one.constraints["infeasible"] for one in found] == [0.0, 0.0, 1.0]


def test_what_a_kl_rule_has_stopped_is_avoided_however_high_its_reward_was(make_space):
    proposer = Proposer(make_space(search={"x": UNIT["x"]}), BASE)
    trials, curves = [], {}
    for i in range(21):
        bold = i > 10
        reason = Reason(pruner="kl_ceiling" if bold else "asha", text="")
        trials.append(replace(trial(i, {"x": i / 20}, state=TrialState.PRUNED), reason=reason))
        curves[i] = curve(*[i / 20] * (9 if bold else 5))
    proposals = [proposer.propose(number, trials, curves)["x"] for number in range(21, 61)]
    assert sum(x < 0.55 for x in proposals) >= 30


def test_what_has_not_changed_is_converted_once(make_space, monkeypatch):
    converted = []
    real = history.create_trial
    monkeypatch.setattr(history, "create_trial", lambda **options: converted.append(1) or real(**options))
    proposer = Proposer(make_space(search=UNIT), BASE)
    trials = [trial(i, {"x": i / 20, "y": 0.5}, 0.0, TrialState.PRUNED) for i in range(20)]
    curves = {i: curve(*[0.1] * 3) for i in range(20)}
    proposer.propose(20, trials, curves)
    assert len(converted) == 20
    proposer.propose(20, trials, curves)
    assert len(converted) == 20
    trials[3] = replace(trials[3], state=TrialState.COMPLETED, value=0.5)
    proposer.propose(20, trials, curves)
    assert len(converted) == 21


NEAR = {
    "lr": Parameter(path="lr", domain=FloatRange(low=1e-7, high=1e-3, log=True), prior=1e-6),
    "kind": Parameter(path="kind", domain=Choice(options=("a", "b", "c", "d")), prior="b"),
    "n": Parameter(path="n", domain=IntRange(low=1, high=100), prior=10),
    "z": Parameter(path="z", domain=FloatRange(low=0.0, high=1.0)),
}


def proposals(make_space, number, seeds=60, sampler="random", search=NEAR):
    return [
        Proposer(make_space(search=search, sampler=SamplerSpec(name=sampler, seed=seed)), {}).propose(number, [], {})
        for seed in range(seeds)
    ]


def near(params):
    return abs(math.log10(params["lr"]) + 6) < 1.0


def test_the_first_proposals_lie_around_the_priors(make_space):
    first = proposals(make_space, 0)
    assert sum(near(params) for params in first) > 36
    assert sum(params["kind"] == "b" for params in first) > 24
    assert sum(params["n"] <= 40 for params in first) > 40
    assert 15 < sum(params["z"] < 0.5 for params in first) < 45
    assert all(contains(NEAR[path].domain, value) for params in first for path, value in params.items())


def test_the_prior_fades_with_the_number_of_trials(make_space):
    counts = [sum(near(params) for params in proposals(make_space, number, 120)) for number in (0, 16, 400)]
    assert counts[0] > counts[1] > counts[2]
    assert counts[2] < 0.65 * 120


def test_a_space_without_priors_is_proposed_as_if_there_were_no_such_thing(make_space):
    first = proposals(make_space, 0, 8, search={"z": NEAR["z"]})
    assert len({params["z"] for params in first}) == 8


def test_a_wrong_prior_costs_early_trials_only(make_space):
    wrong = {
        "x": Parameter(path="x", domain=FloatRange(low=0.0, high=1.0), prior=1.0),
        "y": Parameter(path="y", domain=FloatRange(low=0.0, high=1.0), prior=0.0),
    }
    tried = search(make_space(search=wrong, sampler=SamplerSpec(seed=1), budget=Budget(trials=60)), 60)
    assert max(bowl(params) for params in tried[30:]) > -0.01


MIXED = {
    **UNIT,
    "kind": Parameter(path="kind", domain=Choice(options=("a", "b", "c"))),
    "extra": Parameter(path="extra", domain=IntRange(low=1, high=9), when=expressions.parse("kind == 'b'")),
}


def test_cmaes_moves_its_numbers_to_the_best_and_leaves_choices_to_tpe(make_space):
    space = make_space(search=MIXED, sampler=SamplerSpec(name="cmaes", seed=4), budget=Budget(trials=90))
    found = search(space, 90, lambda p: bowl(p) - 0.1 * (p["kind"] != "c"))
    early, late = found[:12], found[-24:]
    assert sum(-bowl(p) for p in late) / 24 < 0.4 * sum(-bowl(p) for p in early) / 12
    assert sum(p["kind"] == "c" for p in late) > 12
    assert all(("extra" in p) == (p["kind"] == "b") for p in found)


def test_cmaes_ranks_what_breaks_a_constraint_behind(make_space):
    bound = Constraint(metric="kl", upper=True, bound=0.1, text="kl <= 0.1")
    space = make_space(
        search=UNIT, sampler=SamplerSpec(name="cmaes", seed=4), budget=Budget(trials=80), constraints=(bound,)
    )
    proposer, trials, curves = Proposer(space, BASE), [], {}
    for number in range(80):
        params = proposer.propose(number, trials, curves)
        # The best reward lies at x = 1, where the constraint is broken from 0.6 on.
        broken = {"kl <= 0.1": params["x"] - 0.6}
        trials.append(replace(trial(number, params, params["x"]), violations=broken))
        curves[number] = curve(params["x"])
    late = [one.params["x"] for one in trials[-24:]]
    assert sum(x <= 0.6 for x in late) > 12


@pytest.mark.parametrize(
    "search",
    [{"kind": MIXED["kind"]}, {"x": replace(UNIT["x"], domain=FloatRange(low=0.5, high=0.5))}],
    ids=["no number", "one value"],
)
def test_cmaes_without_a_number_to_move_says_what_it_needs(make_space, search):
    space = make_space(search=search, sampler=SamplerSpec(name="cmaes"), start_from=())
    with pytest.raises(InvalidSpaceError, match="a number that always exists; got 1 objectives and 0 numbers"):
        Proposer(space, BASE).propose(0, [], {})


@pytest.mark.parametrize("name", ["tpe", "gp"])
def test_proposals_made_side_by_side_are_no_near_duplicates(make_space, name):
    """The constant liar: a trial that runs counts as no better than what is known, so the next one goes elsewhere."""
    if name == "gp":
        pytest.importorskip("torch")
    space = make_space(search=UNIT, sampler=SamplerSpec(name=name, seed=2), budget=Budget(trials=40))
    known = search(make_space(search=UNIT, sampler=SamplerSpec(name="random", seed=2)), 16)
    ended = [trial(number, params, bowl(params)) for number, params in enumerate(known)]
    curves = {one.number: curve(one.value) for one in ended}

    def distances(told):
        running = []
        for number in range(16, 22):
            params = Proposer(space, BASE).propose(number, [*ended, *(running if told else ())], curves)
            running.append(trial(number, params, state=TrialState.RUNNING))
        points = [(one.params["x"], one.params["y"]) for one in running]
        return sorted(math.dist(a, b) for place, a in enumerate(points) for b in points[:place])

    apart, blind = distances(told=True), distances(told=False)
    assert apart[0] > 0.02
    assert apart[len(apart) // 2] > 2 * blind[len(blind) // 2]


@pytest.mark.parametrize("name", sorted(set(SAMPLERS) - {"gp", "auto"}))
def test_steps_of_ranges_are_kept_by_every_sampler(make_space, name):
    stepped = {
        "x": Parameter(path="x", domain=FloatRange(low=0.1, high=0.9, step=0.2)),
        "y": Parameter(path="y", domain=IntRange(low=8, high=64, step=8)),
    }
    space = make_space(search=stepped, sampler=SamplerSpec(name=name, seed=5), budget=Budget(trials=24))
    for params in search(space, 24, lambda p: p["x"] + p["y"] / 64):
        assert any(math.isclose(params["x"], 0.1 + 0.2 * k) for k in range(5))
        assert params["y"] % 8 == 0
        assert isinstance(params["y"], int)
        assert all(contains(stepped[path].domain, value) for path, value in params.items())
