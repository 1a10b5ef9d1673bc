import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import InvalidSpaceError
from autotune.spec.configs import active, complete, describe_domain, ordered, start_params
from autotune.spec.domains import contains, draw, size, values
from autotune.spec.expressions import parse
from autotune.spec.loader import load_space
from autotune.spec.types import Choice, FloatRange, IntRange, Parameter, Start
from autotune.spec.units import parse_duration, parse_memory

SPACE = load_space(
    "name: mine\nobjective: {metric: m}\nbudget: {trials: 4}\nsearch:\n"
    "  c: {int: [1, 9], when: b == 2, prior: 5}\n"
    "  b: {int: [1, 2], when: a == 'x'}\n"
    "  a: {choice: [x, y]}\n"
)
BASE = {"a": "y", "b": 2, "c": 0, "d": 7}

_domains = st.one_of(
    st.tuples(st.integers(-50, 50), st.integers(0, 20), st.integers(1, 5)).map(
        lambda t: IntRange(low=t[0], high=t[0] + t[1] * t[2], step=t[2])
    ),
    st.tuples(st.integers(1, 50), st.integers(0, 500)).map(lambda t: IntRange(low=t[0], high=t[0] + t[1], log=True)),
    st.tuples(st.floats(-10, 10), st.floats(0, 10)).map(lambda t: FloatRange(low=t[0], high=t[0] + t[1])),
    st.tuples(st.floats(1e-6, 1), st.floats(1, 100)).map(lambda t: FloatRange(low=t[0], high=t[0] * t[1], log=True)),
    st.tuples(st.integers(-5, 5), st.integers(0, 20)).map(
        lambda t: FloatRange(low=t[0] / 10, high=t[0] / 10 + t[1] * 0.1, step=0.1)
    ),
    st.lists(st.sampled_from([1, 2.5, "a", True, None]), min_size=1, unique=True).map(
        lambda options: Choice(options=tuple(options))
    ),
)


@given(_domains, st.integers(0, 1000))
def test_what_is_drawn_or_listed_lies_in_the_domain(domain, seed):
    assert contains(domain, draw(domain, random.Random(seed)))
    listed = values(domain)
    if listed is not None:
        assert len(listed) == size(domain)
        assert all(contains(domain, value) for value in listed)


def test_a_domain_tells_numbers_from_truth_values_and_texts():
    assert contains(IntRange(low=0, high=4, step=2), 2.0)
    assert not contains(IntRange(low=0, high=4, step=2), 3)
    assert not contains(IntRange(low=0, high=4), True)
    assert not contains(Choice(options=(0, 1)), True)
    assert not contains(Choice(options=(True,)), 1)
    assert contains(Choice(options=(1.0,)), 1)
    assert not contains(FloatRange(low=0, high=1), "0.5")
    assert not contains(FloatRange(low=0, high=1), None)


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        (FloatRange(low=5e-7, high=1e-5, log=True), "5e-07 to 1e-05, log"),
        (FloatRange(low=0.1, high=0.3, step=0.1), "0.1 to 0.3, in steps of 0.1"),
        (IntRange(low=1, high=4), "1 to 4"),
        (IntRange(low=8, high=64, step=8), "8 to 64, in steps of 8"),
        (Choice(options=(None, True, 0.5, "a")), "one of null, true, 0.5, a"),
    ],
)
def test_a_domain_is_described_in_words(domain, words):
    assert describe_domain(domain) == words


def test_parameters_come_after_what_their_conditions_read():
    assert [parameter.path for parameter in ordered(SPACE.search)] == ["a", "b", "c"]
    circle = {
        "a": Parameter(path="a", domain=IntRange(low=0, high=1), when=parse("b == 1")),
        "b": Parameter(path="b", domain=IntRange(low=0, high=1), when=parse("a == 1")),
    }
    with pytest.raises(InvalidSpaceError, match="circle"):
        ordered(circle)


def test_only_active_parameters_enter_the_configuration():
    assert complete(SPACE, BASE, {"a": "x", "b": 2, "c": 3}) == {"a": "x", "b": 2, "c": 3, "d": 7}
    assert complete(SPACE, BASE, {"a": "x", "b": 1, "c": 3}) == {"a": "x", "b": 1, "c": 0, "d": 7}
    # b is not active, so the configuration's own b = 2 runs, and c exists because of it.
    assert complete(SPACE, BASE, {"a": "y", "b": 1, "c": 3}) == {"a": "y", "b": 2, "c": 3, "d": 7}
    assert complete(SPACE, BASE, {}) == BASE


@given(st.sampled_from(["x", "y"]), st.integers(1, 2), st.integers(1, 9))
def test_the_active_parameters_of_a_configuration_are_those_that_shaped_it(a, b, c):
    params = {"a": a, "b": b, "c": c}
    config = complete(SPACE, BASE, params)
    names = active(SPACE, config)
    assert list(names) == [name for name in SPACE.search if name in names]
    assert all(config[name] == params[name] for name in names)
    assert all(config[name] == BASE[name] for name in BASE if name not in names)


def test_a_start_is_completed_by_own_values_and_priors():
    assert start_params(SPACE, BASE, Start(label="default")) == {"a": "y", "c": 5}
    assert start_params(SPACE, BASE, Start(label="start-1", values={"a": "x", "b": 1})) == {"a": "x", "b": 1}
    assert start_params(SPACE, BASE, Start(label="start-1", values={"a": "x", "c": 2})) == {"a": "x", "b": 2, "c": 2}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("24h", 86400), ("90m", 5400), ("30s", 30), ("2d", 172800), ("1h30m", 5400), ("1.5h", 5400), ("1 h", 3600)],
)
def test_durations_are_read(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["24", "h", "", "1x", "-1h", "1h30", "1h foo", "1hh", "9" * 400 + "h"])
def test_what_is_no_duration_is_refused(text):
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("text", "amount"),
    [("64GiB", 64 * 2**30), ("512MiB", 2**29), ("8 GB", 8 * 10**9), ("1024", 1024), ("1.5kib", 1536)],
)
def test_amounts_of_memory_are_read(text, amount):
    assert parse_memory(text) == amount


@pytest.mark.parametrize("text", ["64 gigs", "GiB", "", "-1GB", "1i", "k" * 3])
def test_what_is_no_amount_of_memory_is_refused(text):
    assert parse_memory(text) is None
