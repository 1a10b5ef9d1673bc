from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import InvalidSpaceError
from autotune.search.distributions import decode, encode
from autotune.search.proposer import Proposer
from autotune.search.types import Point, Trial
from autotune.spec import expressions
from autotune.spec.domains import contains
from autotune.spec.types import Choice, FloatRange, IntRange, Parameter, SamplerSpec, Start
from autotune.states import TrialState

BASE = {"lr": 1e-3, "epochs": 1, "kl.type": "fixed", "kl.target": 0.1, "batch": 64, "mini": 32}


def condition(text):
    return expressions.parse(text)


def done(number, params, value, state=TrialState.COMPLETED):
    return Trial(
        number=number, state=state, source="sampler", params=params, config={**BASE, **params},
        value=value if state is TrialState.COMPLETED else None,
    )  # fmt: skip


floats = st.tuples(st.floats(1e-6, 1.0), st.floats(1e-6, 1.0)).map(sorted)
domains = st.one_of(
    st.tuples(floats, st.booleans()).map(lambda t: FloatRange(low=t[0][0], high=t[0][1], log=t[1])),
    st.tuples(st.integers(1, 20), st.integers(0, 20), st.booleans()).map(
        lambda t: IntRange(low=t[0], high=t[0] + t[1], log=t[2])
    ),
    st.lists(
        st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=3), st.lists(st.integers())),
        min_size=1, max_size=4, unique_by=lambda value: (type(value).__name__, str(value)),
    ).map(lambda options: Choice(options=tuple(options))),
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from("abcd"), domains, min_size=1), st.sampled_from(["tpe", "random"]), st.data())
def test_every_proposal_lies_in_its_space(make_space, search, sampler, data):
    space = make_space(
        search={path: Parameter(path=path, domain=domain) for path, domain in search.items()},
        sampler=SamplerSpec(name=sampler, seed=3),
    )
    proposer = Proposer(space, BASE)
    trials: list[Trial] = []
    for number in range(12):
        params = proposer.propose(number, trials, {})
        assert params.keys() == search.keys()
        assert all(contains(search[path], value) for path, value in params.items())
        state = data.draw(st.sampled_from([TrialState.COMPLETED, TrialState.PRUNED, TrialState.INFEASIBLE]))
        trials.append(done(number, params, data.draw(st.floats(-10, 10)), state))


@given(domains, st.data())
def test_a_choice_survives_the_way_through_optuna_with_its_type(domain, data):
    if isinstance(domain, Choice):
        value = data.draw(st.sampled_from(domain.options))
        assert decode(domain, encode(domain, value)) == value
        assert type(decode(domain, encode(domain, value))) is type(value)


def test_require_is_met_by_every_proposal(make_space):
    space = make_space(
        search={
            "mini": Parameter(path="mini", domain=IntRange(low=1, high=64)),
            "epochs": Parameter(path="epochs", domain=IntRange(low=1, high=4)),
        },
        require=(condition("batch % mini == 0"), condition("mini * epochs >= 32")),
    )
    proposer = Proposer(space, BASE)
    trials: list[Trial] = []
    for number in range(20):
        params = proposer.propose(number, trials, {})
        assert 64 % params["mini"] == 0
        assert params["mini"] * params["epochs"] >= 32
        trials.append(done(number, params, float(params["epochs"])))


def test_a_require_that_never_holds_is_said_plainly(make_space):
    space = make_space(require=(condition("epochs > 9"),))
    with pytest.raises(InvalidSpaceError, match="no configuration of the space 'small' meets its `require`"):
        Proposer(space, BASE).propose(0, [], {})


def conditional(make_space):
    return make_space(
        search={
            "kl.target": Parameter(
                path="kl.target", domain=FloatRange(low=0.02, high=0.2), when=condition("kl.type == 'adaptive'")
            ),
            "kl.type": Parameter(path="kl.type", domain=Choice(options=("fixed", "adaptive"))),
        }
    )


def test_a_conditional_parameter_exists_only_where_its_condition_holds(make_space):
    proposer = Proposer(conditional(make_space), BASE)
    trials: list[Trial] = []
    for number in range(20):
        params = proposer.propose(number, trials, {})
        assert ("kl.target" in params) == (params["kl.type"] == "adaptive")
        trials.append(done(number, params, params.get("kl.target", 0.0)))
    assert {len(trial.params) for trial in trials} == {1, 2}


def test_a_small_space_is_tried_out_before_anything_repeats(make_space):
    space = make_space(search={"epochs": Parameter(path="epochs", domain=IntRange(low=1, high=4))})
    proposer = Proposer(space, BASE)
    trials: list[Trial] = []
    for number in range(5):
        trials.append(done(number, proposer.propose(number, trials, {}), 1.0))
    assert sorted(trial.params["epochs"] for trial in trials[:4]) == [1, 2, 3, 4]
    assert trials[4].params["epochs"] in {1, 2, 3, 4}


def test_the_prior_stands_in_for_a_default_outside_the_range(make_space):
    search = {"lr": Parameter(path="lr", domain=FloatRange(low=1e-6, high=1e-5), prior=3e-6)}
    assert Proposer(make_space(search=search), BASE).start(Start(label="default")) == {"lr": 3e-6}
    inside = {"lr": replace(search["lr"], domain=FloatRange(low=1e-6, high=1e-2))}
    assert Proposer(make_space(search=inside), BASE).start(Start(label="default")) == {"lr": 1e-3}


def test_tpe_concentrates_where_the_results_were_good_and_avoids_what_was_infeasible(make_space):
    search = {"lr": Parameter(path="lr", domain=FloatRange(low=0.0, high=1.0))}
    proposer = Proposer(make_space(search=search), BASE)
    trials = [done(i, {"lr": i / 20}, -abs(i / 20 - 0.3)) for i in range(11)]
    trials += [done(i, {"lr": i / 20}, None, TrialState.INFEASIBLE) for i in range(11, 21)]
    proposals = [proposer.propose(number, trials, {})["lr"] for number in range(21, 61)]
    assert sum(value < 0.5 for value in proposals) >= 30


def test_pruned_trials_teach_the_sampler_through_their_curves(make_space):
    search = {"lr": Parameter(path="lr", domain=FloatRange(low=0.0, high=1.0))}
    proposer = Proposer(make_space(search=search), BASE)
    trials = [done(i, {"lr": i / 20}, None, TrialState.PRUNED) for i in range(21)]
    curves = {
        trial.number: [Point(step=5, time=0.0, metrics={"eval/reward": -abs(trial.params["lr"] - 0.8)})]
        for trial in trials
    }
    proposals = [proposer.propose(number, trials, curves)["lr"] for number in range(21, 61)]
    assert sum(value > 0.5 for value in proposals) >= 30


@pytest.mark.parametrize(("name", "share"), [("tpe", 1 / 3), ("nsga2", 0.0)])
def test_a_third_of_a_models_proposals_is_drawn_without_it(make_space, name, share):
    search = {"lr": Parameter(path="lr", domain=FloatRange(low=0.0, high=1.0))}
    proposer = Proposer(make_space(search=search, sampler=SamplerSpec(name=name, seed=3)), BASE)
    drawn = [bool(list(itertools.islice(proposer._before_the_sampler(number), 1))) for number in range(600)]
    assert sum(drawn) / 600 == pytest.approx(share, abs=0.06)
