from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from autotune.search.pareto import dominates, fronts, order, positions

vectors = st.dictionaries(
    st.integers(0, 99),
    st.tuples(st.integers(-4, 4).map(float), st.integers(-4, 4).map(float), st.integers(-4, 4).map(float)),
    max_size=24,
)


@given(vectors)
def test_nobody_on_a_front_is_beaten_and_everybody_behind_it_is(found):
    remaining = dict(found)
    for front in fronts(found):
        for number in front:
            assert not any(dominates(other, remaining[number]) for other in remaining.values())
        remaining = {n: vector for n, vector in remaining.items() if n not in front}
        for vector in remaining.values():
            assert any(dominates(found[ahead], vector) for ahead in front)
    assert remaining == {}


@given(vectors)
def test_the_order_has_everybody_once_and_never_a_worse_one_before_a_better(found):
    ranking = order(found)
    assert sorted(ranking) == sorted(found)
    for place, number in enumerate(ranking):
        assert not any(dominates(found[later], found[number]) for later in ranking[place + 1 :])


@given(vectors, st.floats(0.1, 10), st.floats(-5, 5))
def test_the_order_knows_no_units(found, factor, shift):
    scaled = {n: (factor * a + shift, 2 * b - 1, c) for n, (a, b, c) in found.items()}
    assert [sorted(front) for front in fronts(found)] == [sorted(front) for front in fronts(scaled)]


def test_the_compromise_comes_first_and_the_extremes_before_its_neighbours():
    front = {0: (0.0, 1.0), 1: (0.1, 0.99), 2: (0.7, 0.7), 3: (0.69, 0.71), 4: (1.0, 0.0), 5: (0.5, 0.5)}
    ranking = order(front)
    assert ranking[0] in (2, 3)
    assert {0, 4} == set(ranking[1:3])
    assert ranking[-1] == 5


def test_what_is_not_finite_stands_behind_everybody():
    found = positions({0: (1.0, -math.inf), 1: (0.0, 0.0), 2: (0.5, 0.5)})
    assert found == {0: -math.inf, 1: -1.0, 2: 0.0}
