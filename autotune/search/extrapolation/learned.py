"""What the finished curves of a job teach about the next one: where curves start, what they gain, what shape they have.

An empirical Bayes prior. A job's curves look alike (same task, model and length), and a handful of them say more about
the next one than any general knowledge of learning curves: whether rewards take off late, whether they peak. Their own
shapes, smoothed, join the general ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.search.extrapolation.fit import Belief, Reports, fit, flat_weights
from autotune.search.extrapolation.shapes import GRID, Floats

GENERAL = 4.0
"""Finished curves that the general belief about shapes counts for."""
SPREAD = 1.5
"""Curves to come differ more than the finished ones: those are the survivors."""
OWN_SHAPES = 16
"""Finished curves whose own shapes are tried, the latest ones."""
_ENDS = 3
_CLEAR = 4.0
"""Noises that a curve must rise or fall by for its shape to be one."""
_NOISE_OF_OTHERS = 8.0
"""Reports that the noise of the finished curves counts for."""
_TINY = 1e-3


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """A curve of full length, as a lesson.

    Attributes:
        start: Mean of its first reports.
        gain: What it had gained at its end.
        swing: The range of its values.
        noise: Standard deviation of one report.
        weights: Probability of each shape and walk ``[shapes, walks]``.
        shape: Its smoothed values at ``GRID``, from 0 and at most 1 away from it; ``None`` if it is all noise.
    """

    start: float
    gain: float
    swing: float
    noise: float
    weights: Floats
    shape: Floats | None


def lesson(reports: Reports) -> Finished:
    """What one finished curve teaches."""
    start = float(np.mean(reports.y[:_ENDS]))
    gain = float(np.mean(reports.y[-_ENDS:])) - start
    swing = float(np.ptp(reports.y))
    unit = max(swing, _TINY * abs(start), 1e-9)
    noise = max(reports.noise(), _TINY * unit)
    own = Belief(level=start, level_sd=unit, gain=gain, gain_sd=unit, noise=noise, weights=flat_weights())
    weights = fit(reports, own).weights
    return Finished(start=start, gain=gain, swing=swing, noise=noise, weights=weights, shape=_shape(reports, noise))


def believe(reports: Reports, finished: Sequence[Finished]) -> Belief:
    """The belief about a curve before its reports are fitted; of the reports only the noise is used.

    Args:
        reports: Of the curve.
        finished: The lessons of others; without any the curve's own range is the unit of everything.
    """
    if not finished:
        alone = lesson(reports)
        unit = max(alone.swing, _TINY * abs(alone.start), 1e-9)
        return Belief(
            level=alone.start,
            level_sd=2.0 * unit,
            gain=0.0,
            gain_sd=2.0 * unit,
            noise=alone.noise,
            weights=flat_weights(),
        )
    starts = np.array([one.start for one in finished])
    gains = np.array([one.gain for one in finished])
    unit = max(float(np.mean([one.swing for one in finished])), _TINY * abs(float(np.mean(starts))), 1e-9)
    others = float(np.median([one.noise for one in finished]))
    count = float(len(reports.y)) if reports.noise() > 0.0 else 0.0
    noise = np.sqrt((count * reports.noise() ** 2 + _NOISE_OF_OTHERS * others**2) / (count + _NOISE_OF_OTHERS))
    seen = np.sum([one.weights for one in finished], axis=0)
    weights = (GENERAL * flat_weights() + seen) / (GENERAL + len(finished))
    shapes = [one.shape for one in finished if one.shape is not None][-OWN_SHAPES:]
    if shapes:
        part = 0.5 * len(finished) / (GENERAL + len(finished))
        each = np.full((len(shapes), weights.shape[1]), part / (len(shapes) * weights.shape[1]))
        weights = np.concatenate([(1.0 - part) * weights, each])
    return Belief(
        level=float(np.mean(starts)),
        level_sd=_spread(starts, 0.25 * unit),
        gain=float(np.mean(gains)),
        gain_sd=_spread(gains, unit),
        noise=max(float(noise), _TINY * unit),
        weights=weights,
        own=np.stack(shapes) if shapes else None,
    )


def _shape(reports: Reports, noise: float) -> Floats | None:
    """A curve's own shape: a moving mean over a tenth of it, at the places of ``GRID``."""
    width = max(1, len(reports.y) // 10)
    window = np.ones(width) / width
    padded = np.concatenate(
        [np.full(width // 2, reports.y[0]), reports.y, np.full(width - 1 - width // 2, reports.y[-1])]
    )
    smooth = np.interp(GRID, reports.u, np.convolve(padded, window, mode="valid"))
    away = smooth - smooth[0]
    height = float(np.max(np.abs(away)))
    return away / height if height > _CLEAR * noise else None


def _spread(values: Floats, usual: float) -> float:
    """The standard deviation of the next value; two pretended values keep a few real ones from being trusted."""
    spread = np.sqrt((np.sum((values - np.mean(values)) ** 2) + 2.0 * usual**2) / (len(values) + 1.0))
    return SPREAD * float(spread)
