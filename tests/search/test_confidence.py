from __future__ import annotations

import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.search.confidence import difference, half_width, t_quantile

scipy_stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize("freedom", [1, 2, 5, 10, 30])
def test_the_table_holds_students_quantiles(freedom):
    assert t_quantile(freedom) == pytest.approx(scipy_stats.t.ppf(0.975, freedom), abs=6e-4)


def test_between_the_table_and_beyond_it_the_interval_is_never_too_narrow():
    for freedom in (1.5, 2.9, 29.5, 31.0, 500.0):
        assert t_quantile(freedom) >= scipy_stats.t.ppf(0.975, freedom) - 6e-4
    with pytest.raises(ValueError, match=r"got 0\.5 degrees"):
        t_quantile(0.5)


def test_the_interval_holds_the_truth_as_often_as_it_says():
    rng = random.Random(0)
    runs = [[rng.gauss(0.7, 0.1) for _ in range(3)] for _ in range(2000)]
    covered = sum(abs(fmean(values) - 0.7) <= (half_width(values) or 0.0) for values in runs)
    assert 0.93 < covered / len(runs) < 0.97


values = st.lists(st.floats(-10, 10), min_size=2, max_size=8)


@given(values, values)
def test_the_difference_is_welchs(first, second):
    found = difference(first, second)
    assert found is not None
    gap, half = found
    assert gap == pytest.approx(fmean(first) - fmean(second))
    other = difference(second, first)
    assert other == (pytest.approx(-gap), pytest.approx(half))
    if min(max(first) - min(first), max(second) - min(second)) > 1e-3:
        low, high = scipy_stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
        assert half >= (high - low) / 2 - 2e-3 * (1 + half)


def test_the_order_of_two_groups_does_not_matter_where_the_degrees_of_freedom_are_whole():
    first, second = [0.0, 0.0, 0.0, 1.0, 1.0, 3.0, -2.0], [0.0, 1.0, 1.0, 1.0, 3.0, -2.0, 0.0]
    one, other = difference(first, second), difference(second, first)
    assert one is not None
    assert other is not None
    assert one[1] == pytest.approx(other[1])
    assert t_quantile(12 * (1 - 1e-15)) == t_quantile(12)


def test_one_value_has_no_interval():
    assert half_width([1.0]) is None
    assert difference([1.0], [1.0, 2.0]) is None
    assert difference([1.0, 1.0], [0.5, 0.5]) == (0.5, 0.0)
