from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.search.curves import Curve
from autotune.search.objective import objective_value, recent, series
from autotune.search.types import Point
from autotune.spec.types import Objective, Reduce

values = st.one_of(st.none(), st.floats(-5, 5))
points = st.lists(st.tuples(st.integers(0, 30), st.dictionaries(st.sampled_from(["a", "b"]), values)), max_size=30).map(
    lambda items: [Point(step=step, time=0.0, metrics=metrics) for step, metrics in items]
)


def grown(reports):
    """A curve to which the reports came one after the other, and the plain list that it stands for."""
    curve, plain = Curve(), []
    for point in reports:
        curve = curve.with_point(point)
        plain = [*(earlier for earlier in plain if earlier.step < point.step), point]
    return curve, plain


@given(points, st.integers(0, 30), st.integers(1, 5))
def test_a_curve_answers_like_the_list_of_its_points(reports, until, count):
    curve, plain = grown(reports)
    assert list(curve) == plain
    assert curve[-3:] == plain[-3:]
    for metric in ("a", "b"):
        assert series(curve, metric) == series(plain, metric)
        assert series(curve, metric, until) == series(plain, metric, until)
        assert recent(curve, metric, count, until) == recent(plain, metric, count, until)
        for reduce in Reduce:
            objective = Objective(metric=metric, reduce=reduce, smooth=count)
            assert objective_value(objective, curve, until) == objective_value(objective, plain, until)


@given(points, points)
def test_a_curve_never_changes_when_others_grow_from_it(reports, more):
    curve, plain = grown(reports)
    before = series(curve, "a")
    for point in more:
        curve.with_point(point)
        curve.with_point(point).with_point(Point(step=point.step + 1, time=0.0, metrics={"a": 9.0}))
    assert list(curve) == plain
    assert series(curve, "a") == before


def test_a_curve_without_points_has_no_last_step_and_no_first_point():
    assert Curve().last_step == -1
    assert not Curve()
    with pytest.raises(IndexError, match="of 0 points has no point 0"):
        Curve()[0]
