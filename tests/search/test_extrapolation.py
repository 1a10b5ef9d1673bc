from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from autotune.execution.simulated import Failure
from autotune.execution.synthetic_curves import CLIP_RATIO, KL_COEF, LR, ppo_like
from autotune.search.extrapolation import SHAPES, Belief, Reports, believe, fit, forecast
from autotune.search.extrapolation.fit import PLACES, WALKS
from autotune.search.extrapolation.learned import lesson
from autotune.search.extrapolation.shapes import design
from autotune.search.extrapolation.target import outlook
from autotune.spec.types import Objective, Reduce

LAST = Objective(metric="m", smooth=3)


def only(shape, walk):
    """A belief in one shape and one walk."""
    weights = np.zeros((len(SHAPES), len(WALKS)))
    weights[shape, walk] = 1.0
    return Belief(level=0.2, level_sd=0.5, gain=0.4, gain_sd=0.7, noise=0.1, weights=weights)


def saturating(u, rng, noise=0.02, gain=0.6, kappa=6.0):
    return 0.1 + gain * (1.0 - np.exp(-kappa * u)) + rng.normal(0.0, noise, len(u))


def test_every_shape_starts_at_zero_and_has_its_highest_point_at_one():
    rows = design(np.linspace(0.0, 1.0, 101))
    assert np.all(np.isfinite(rows))
    assert np.allclose(rows[:, 0], 0.0)
    flat = np.max(rows, axis=1) == 0.0
    assert flat.sum() == 1
    assert np.allclose(np.max(rows, axis=1)[~flat], 1.0)


@pytest.mark.parametrize("walk", range(len(WALKS)))
def test_a_forecast_is_the_exact_conditional_of_the_joint_distribution(walk):
    rng = np.random.default_rng(1)
    u, ahead = np.array([0.1, 0.2, 0.35, 0.4]), np.array([0.5, 0.8, 1.0])
    weights, y = np.array([0.0, 0.5, 0.5]), rng.normal(0.4, 0.2, 4)
    shape, belief = 12, only(12, walk)
    mixture = forecast(fit(Reports(u=u, y=y), belief), ahead, weights)

    # The same from the joint covariance of all reports, in units of the noise: C + H V H'.
    everywhere = np.concatenate([u, ahead])
    features = np.stack([np.ones(7), design(everywhere)[shape]], axis=-1)
    prior = np.diag([0.5**2, 0.7**2]) / 0.1**2
    joint = np.eye(7) + WALKS[walk] * np.minimum.outer(everywhere, everywhere) + features @ prior @ features.T
    mean = features @ np.array([0.2, 0.4])
    past, cross, future = joint[:4, :4], joint[4:, :4], joint[4:, 4:]
    away = y - mean[:4]
    gain = cross @ np.linalg.inv(past)
    freedom = 4.0 + 4.0
    scale = (2 * 2.0 * 0.1**2 + away @ np.linalg.solve(past, away)) / freedom
    variance = weights @ (future - gain @ cross.T) @ weights * scale

    best = np.argmax(mixture.weights)
    assert mixture.weights[best] == pytest.approx(1.0)
    assert mixture.freedom == freedom
    assert mixture.centre[best] == pytest.approx(weights @ (mean[4:] + gain @ away))
    assert mixture.scale[best] ** 2 == pytest.approx(variance)


def test_a_long_curve_is_averaged_down_and_forecast_alike():
    rng = np.random.default_rng(2)
    u = np.linspace(0.002, 0.6, 300)
    reports = Reports(u=u, y=saturating(u, rng))
    places, values, counts = reports.binned()
    assert len(places) == PLACES
    assert counts.sum() == 300
    assert values @ counts == pytest.approx(reports.y.sum())
    end = outlook(LAST, reports, fit(reports, believe(reports, [])), np.linspace(0.602, 1.0, 200)).central
    assert end.mean == pytest.approx(0.7, abs=0.03)
    assert end.sd < 0.1


def test_a_saturating_curve_is_foreseen_from_its_first_half():
    rng = np.random.default_rng(3)
    u = np.linspace(0.05, 1.0, 20)
    reports = Reports(u=u[:10], y=saturating(u, rng)[:10])
    view = outlook(LAST, reports, fit(reports, believe(reports, [])), u[10:])
    assert view.above(0.5) > 0.9
    assert view.above(1.2) < 0.05


def test_finished_curves_teach_that_rewards_take_off_late():
    rng = np.random.default_rng(4)
    u = np.linspace(0.05, 1.0, 20)

    def late():
        return 0.1 + 0.7 / (1.0 + np.exp(-25.0 * (u - 0.6))) + rng.normal(0.0, 0.01, 20)

    flat_so_far = Reports(u=u[:8], y=late()[:8])
    alone = outlook(LAST, flat_so_far, fit(flat_so_far, believe(flat_so_far, [])), u[8:])
    lessons = [lesson(Reports(u=u, y=late())) for _ in range(8)]
    taught = outlook(LAST, flat_so_far, fit(flat_so_far, believe(flat_so_far, lessons)), u[8:])
    assert taught.above(0.5) > 3 * alone.above(0.5)
    assert taught.above(0.5) > 0.3


@pytest.mark.parametrize(("reduce", "expected"), [(Reduce.LAST, 0.468), (Reduce.MAX, 0.8), (Reduce.MEAN, 0.611)])
def test_the_reduction_of_the_objective_decides_what_is_foreseen(reduce, expected):
    u = np.linspace(0.05, 1.0, 20)
    y = 0.2 + 0.6 * u / 0.35 * np.exp(1.0 - u / 0.35) + np.random.default_rng(5).normal(0.0, 0.005, 20)
    reports = Reports(u=u[:16], y=y[:16])
    view = outlook(Objective(metric="m", reduce=reduce), reports, fit(reports, believe(reports, [])), u[16:])
    assert view.above(expected - 0.1) > 0.95
    assert view.above(expected + 0.1) < 0.05


def test_the_lowest_value_so_far_bounds_an_objective_that_is_a_minimum():
    u = np.linspace(0.05, 1.0, 20)
    reports = Reports(u=u[:10], y=np.array([0.1, *[0.9] * 9]))
    view = outlook(Objective(metric="m", reduce=Reduce.MIN), reports, fit(reports, believe(reports, [])), u[10:])
    assert view.above(0.5) == 0.0


@pytest.mark.parametrize(
    "y",
    [[0.0] * 12, [1e9] * 12, [1e-12 * i for i in range(12)], [0.5, -3e8, 0.2, 7e8] * 3, list(range(12))],
    ids=["zero", "huge", "tiny", "wild", "line"],
)
def test_no_curve_is_too_strange_to_be_fitted(y):
    u = np.linspace(0.05, 0.6, 12)
    reports = Reports(u=u, y=np.array(y, dtype=float))
    lessons = [lesson(Reports(u=np.linspace(0.05, 1.0, 20), y=np.full(20, 0.3)))]
    for taught in ([], lessons):
        view = outlook(LAST, reports, fit(reports, believe(reports, taught)), np.linspace(0.65, 1.0, 8))
        assert 0.0 <= view.above(0.4) <= 1.0
        assert np.isfinite(view.central.mean)


def synthetic(count, seed, steps=60):
    """Whole reward curves of random configurations; what diverges is left out."""
    rng = random.Random(seed)
    curves = []
    while len(curves) < count:
        config = {
            LR: 10 ** rng.uniform(-6.5, -5),
            KL_COEF: 10 ** rng.uniform(-4, -1),
            CLIP_RATIO: rng.uniform(0.1, 0.3),
        }
        items = itertools.takewhile(
            lambda item: not isinstance(item, Failure) and item[1]["reward/mean"] is not None,
            itertools.islice(ppo_like(config, rng.randrange(10**6)), steps),
        )
        values = [item[1]["reward/mean"] for item in items]
        if len(values) == steps:
            curves.append(np.array(values))
    return curves


def test_the_chances_are_calibrated():
    """Of all that are given a chance of about p about p come to pass, and intervals hold what they say."""
    curves, u = synthetic(90, seed=1), np.arange(1, 61) / 60
    lessons = [lesson(Reports(u=u, y=y)) for y in curves[:24]]
    finals = [float(np.mean(y[-3:])) for y in curves]
    chances, outcomes, inside = [], [], []
    for y, final in zip(curves[24:], finals[24:], strict=True):
        for cut in (6, 12, 20, 30, 42):
            reports = Reports(u=u[:cut], y=y[:cut])
            view = outlook(LAST, reports, fit(reports, believe(reports, lessons)), u[cut:])
            for bar in sorted(finals[:24])[8::5]:
                chances.append(view.above(bar))
                outcomes.append(final > bar)
            inside.append(0.05 < view.central.above(final) < 0.95)
    chance, outcome = np.array(chances), np.array(outcomes)
    low = chance < 0.05
    assert low.sum() > 100
    assert outcome[low].mean() <= 0.05
    for lower, upper in ((0.05, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.01)):
        part = (chance >= lower) & (chance < upper)
        assert part.sum() > 30
        assert abs(outcome[part].mean() - chance[part].mean()) < 0.2
    assert np.mean((chance - outcome) ** 2) < 0.75 * np.mean((outcome.mean() - outcome) ** 2)
    assert 0.85 < np.mean(inside) <= 0.98
