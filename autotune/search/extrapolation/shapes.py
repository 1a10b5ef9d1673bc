"""The shapes a learning curve may have.

The families are those of Domhan, Springenberg & Hutter 2015, "Speeding up Automatic Hyperparameter Optimization of Deep
Neural Networks by Extrapolation of Learning Curves" (IJCAI, table 1), each at a few values of its shape parameters,
and three more that training by reinforcement learning asks for: a straight line, a curve with its peak behind it (an
over-optimized reward), and no shape at all (the last value seen is the best guess).

A shape is a function of the part ``u`` of the training that is done, 0 to 1. It is turned and stretched so that it
starts at 0 and its highest point is 1: its two linear coefficients are then the level at the start and the gain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Shape: TypeAlias = Callable[[Floats], Floats]


def _pow3(c: float, alpha: float) -> Shape:
    """``1 - (1 + u/c)^-alpha``."""
    return lambda u: 1.0 - (1.0 + u / c) ** -alpha


def _ilog2(scale: float) -> Shape:
    """``1 - log 2 / log(2 + scale u)``."""
    return lambda u: 1.0 - math.log(2.0) / np.log(2.0 + scale * u)


def _janoschek(kappa: float, delta: float) -> Shape:
    """``1 - exp(-(kappa u)^delta)``; exponential for ``delta = 1``, Weibull's sigmoid above."""
    return lambda u: 1.0 - np.exp(-((kappa * u) ** delta))


def _mmf(half: float, delta: float) -> Shape:
    """Morgan, Mercer & Flodin: ``u^delta / (half^delta + u^delta)``."""
    return lambda u: u**delta / (half**delta + u**delta)


def _peak(at: float) -> Shape:
    """``(u/at) exp(1 - u/at)``: rises to its peak and falls again."""
    return lambda u: u / at * np.exp(1.0 - u / at)


def _line(u: Floats) -> Floats:
    return u


def _last(u: Floats) -> Floats:
    return np.zeros_like(u)


FAMILIES: Mapping[str, Sequence[Shape]] = {
    "pow3": [_pow3(c, alpha) for c in (0.02, 0.1, 0.4) for alpha in (0.5, 1.5)],
    "ilog2": [_ilog2(scale) for scale in (10.0, 100.0, 1000.0)],
    "exponential": [_janoschek(kappa, 1.0) for kappa in (1.0, 2.5, 6.0, 15.0, 40.0)],
    "weibull": [_janoschek(kappa, delta) for kappa in (1.0, 1.7, 3.0, 6.0, 12.0) for delta in (1.7, 3.0, 6.0)],
    "mmf": [_mmf(half, delta) for half in (0.1, 0.25, 0.5, 1.0) for delta in (2.0, 4.0)],
    "line": [_line],
    "peak": [_peak(at) for at in (0.1, 0.2, 0.35, 0.6)],
    "last": [_last],
}
"""Family -> its shapes."""
SHAPES: tuple[Shape, ...] = tuple(shape for family in FAMILIES.values() for shape in family)
PRIOR: Floats = np.concatenate(
    [np.full(len(family), 1.0 / (len(FAMILIES) * len(family))) for family in FAMILIES.values()]
)
"""What is believed of each shape before anything is known: every family alike."""

GRID = np.linspace(0.0, 1.0, 101)
"""Where a shape is looked at that is known by its values."""
_HEIGHTS = np.array([max(float(np.max(shape(GRID) - shape(GRID)[0])), 1e-12) for shape in SHAPES])


def design(u: Floats, own: Floats | None = None) -> Floats:
    """The values of all shapes at some parts of the training.

    Args:
        u: ``[places]``.
        own: Further shapes by their values at ``GRID`` ``[own, grid]``.

    Returns:
        ``[shapes + own, places]``, each row from 0 at ``u = 0`` to at most 1.
    """
    origin = np.zeros(1)
    rows = [(shape(u) - shape(origin)) / height for shape, height in zip(SHAPES, _HEIGHTS, strict=True)]
    return np.stack(rows + [np.interp(u, GRID, values) for values in (() if own is None else own)])
