"""Every proposal of every sampler lies in its space and meets ``require`` and ``when``, whatever was found before."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.search.curves import Curve
from autotune.search.proposer import Proposer
from autotune.search.samplers import SAMPLERS
from autotune.search.types import Point, Trial
from autotune.spec import expressions
from autotune.spec.domains import contains
from autotune.spec.types import Budget, Choice, Direction, FloatRange, IntRange, Objective, Parameter, SamplerSpec
from autotune.states import TrialState

BASE = {"a": 0.5, "n": 2, "kind": "x", "deep": 1, "deeper": 0.1}
TWO = Objective(metric="eval/reward", also=(Objective(metric="length", direction=Direction.MINIMIZE),))
ENDS = (TrialState.COMPLETED, TrialState.PRUNED, TrialState.INFEASIBLE, TrialState.FAILED, TrialState.RUNNING)


@st.composite
def spaces(draw):
    """A space with a condition on a condition, and a requirement that some of it breaks."""
    log, step = draw(st.booleans()), draw(st.sampled_from([None, 0.125]))
    low = draw(st.sampled_from([0.125, 0.25]))
    search = {
        "a": FloatRange(low=low, high=1.0, log=log and step is None, step=None if log else step),
        "n": IntRange(low=1, high=draw(st.integers(1, 40)), log=draw(st.booleans())),
        "kind": Choice(options=tuple(draw(st.permutations(["x", "y", "z"])))),
    }
    found = {path: Parameter(path=path, domain=domain) for path, domain in search.items()}
    found["deep"] = Parameter(
        path="deep", domain=IntRange(low=0, high=8, step=2), when=expressions.parse("kind != 'x'")
    )
    found["deeper"] = Parameter(
        path="deeper", domain=FloatRange(low=0.0, high=1.0), when=expressions.parse("kind != 'x' and deep >= 4")
    )
    require = draw(st.sampled_from([(), ("n * a <= 12",), ("kind != 'z' or n >= 1", "a >= 0.25")]))
    return found, tuple(map(expressions.parse, require))


def exists(parameter, params):
    return parameter.when is None or parameter.when.holds({**BASE, **params})


@pytest.mark.parametrize("several", [False, True], ids=["one objective", "two objectives"])
@pytest.mark.parametrize("name", sorted(set(SAMPLERS) - {"gp", "auto"}))
@given(drawn=spaces(), seed=st.integers(0, 99), data=st.data())
@settings(max_examples=6, deadline=None)
def test_every_proposal_lies_in_its_space_and_meets_its_conditions(make_space, name, several, drawn, seed, data):
    if several and name == "cmaes":
        return
    search, require = drawn
    space = make_space(
        search=search,
        require=require,
        sampler=SamplerSpec(name=name, seed=seed),
        budget=Budget(trials=16),
        objective=TWO if several else Objective(metric="eval/reward"),
    )
    proposer, trials, curves = Proposer(space, BASE), [], {}
    for number in range(14):
        params = proposer.propose(number, trials, curves)
        assert params.keys() == {path for path, parameter in search.items() if exists(parameter, params)}
        assert all(contains(search[path].domain, value) for path, value in params.items())
        assert all(condition.holds({**BASE, **params}) for condition in require)
        state = data.draw(st.sampled_from(ENDS))
        values = {"eval/reward": data.draw(st.floats(-9, 9)), "length": data.draw(st.floats(1, 99))}
        value = values["eval/reward"] if state is TrialState.COMPLETED else None
        trial = Trial(number=number, state=state, source="sampler", params=params, config=params, value=value)
        trials.append(trial)
        curves[number] = Curve([Point(step=data.draw(st.integers(1, 9)), time=0.0, metrics=values)])
