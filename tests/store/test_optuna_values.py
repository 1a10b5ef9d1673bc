"""Every domain and every value has its counterpart in Optuna."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.spec.types import Choice, FloatRange, Parameter
from autotune.store import optuna_values

JSON = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, 1.0, "a", "1", "true"])
OPTIONS = st.lists(JSON | st.lists(JSON, max_size=2), min_size=1, max_size=5)


@given(options=OPTIONS, data=st.data())
@settings(max_examples=100)
def test_every_choice_has_a_place_of_its_own_in_optuna(options: list, data: st.DataObject) -> None:
    unique = list({json.dumps(option): option for option in options}.values())
    parameters = {"p": Parameter(path="p", domain=Choice(options=tuple(unique)))}
    places = set()
    for option in unique:
        values, distributions = optuna_values.suggestions(parameters, {"p": option})
        places.add(distributions["p"].to_internal_repr(values["p"]))
    assert len(places) == len(unique)


@given(
    low=st.floats(1e-9, 1.0),
    width=st.floats(0.0, 10.0),
    value=st.floats(1e-12, 100.0),
    log=st.booleans(),
)
def test_a_number_always_lies_in_its_own_distribution(low: float, width: float, value: float, log: bool) -> None:
    parameters = {"p": Parameter(path="p", domain=FloatRange(low=low, high=low + width, log=log))}
    values, distributions = optuna_values.suggestions(parameters, {"p": value})
    assert values["p"] == value
    assert distributions["p"]._contains(value)
