"""Fits every shape to a curve at once, in closed form.

With ``g`` a shape, ``y_i = start + gain g(u_i) + e_i`` is linear in ``beta = (start, gain)``. The errors are what one
report is off by, plus a random walk that no shape explains: ``e ~ N(0, s^2 C)``, ``C = diag(1/n_i) + walk
min(u_i, u_j)``, where a report that stands for ``n_i`` averaged ones is that much less noisy. With ``beta | s^2 ~
N(m, s^2 V)`` and ``s^2 ~ InverseGamma(a, b)`` the posterior, the marginal likelihood and the forecast (a Student's t)
are known exactly, so nothing is sampled: Gelman et al. 2013, "Bayesian Data Analysis", chapter 14.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.search.extrapolation.shapes import PRIOR, Floats, design

WALKS = (0.0, 1.0, 10.0, 100.0)
"""Variances of the random walk over a whole training, in units of one report's noise."""
PLACES = 32
"""Reports that are fitted at most; of a longer curve neighbours are averaged."""
_SHAPE = 2.0
"""``a`` of the inverse gamma prior of the noise: as much as four reports would say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reports:
    """The finite reports of one metric.

    Attributes:
        u: Part of the training that is done at each, ascending ``[reports]``.
        y: Their values ``[reports]``.
    """

    u: Floats
    y: Floats

    def binned(self) -> tuple[Floats, Floats, Floats]:
        """At most ``PLACES`` places, values and how many reports each stands for, ``[places]`` each."""
        if len(self.u) <= PLACES:
            return self.u, self.y, np.ones(len(self.u))
        edges = np.linspace(0, len(self.u), PLACES + 1).astype(int)[:-1]
        counts = np.diff(np.append(edges, len(self.u))).astype(float)
        return np.add.reduceat(self.u, edges) / counts, np.add.reduceat(self.y, edges) / counts, counts

    def noise(self) -> float:
        """The standard deviation of one report, from the second differences of neighbours; robust against jumps."""
        if len(self.y) < 4:
            return 0.0
        bends = self.y[2:] - 2.0 * self.y[1:-1] + self.y[:-2]
        return float(np.median(np.abs(bends)) / 0.6745 / np.sqrt(6.0))


@dataclass(frozen=True, kw_only=True, slots=True)
class Belief:
    """What is believed of a curve before it is seen.

    Attributes:
        level: Mean level at the start.
        level_sd: Its standard deviation.
        gain: Mean gain.
        gain_sd: Its standard deviation.
        noise: Standard deviation of one report.
        weights: Probability of each shape and walk ``[shapes, walks]``.
        own: Further shapes, which the weights include, by their values at ``GRID``; ``None`` = none.
    """

    level: float
    level_sd: float
    gain: float
    gain_sd: float
    noise: float
    weights: Floats
    own: Floats | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Posterior:
    """What is believed once the curve was seen.

    Attributes:
        places: Where the fitted reports stand ``[places]``.
        weights: Probability of each shape and walk ``[shapes, walks]``.
        beta: Posterior mean of start and gain ``[walks, shapes, 2]``.
        spread: Their covariance in units of ``s^2`` ``[walks, shapes, 2, 2]``.
        whitened: The shapes at the places, whitened ``[walks, shapes, places, 2]``.
        residual: What is left of the values, whitened ``[walks, shapes, places]``.
        roots: Cholesky roots of ``C``, one per walk ``[walks][places, places]``.
        freedom: ``2 a`` after the curve.
        variance: ``b / a`` after the curve ``[walks, shapes]``.
        own: The further shapes of the belief.
    """

    places: Floats
    weights: Floats
    beta: Floats
    spread: Floats
    whitened: Floats
    residual: Floats
    unmixers: Sequence[Floats]
    freedom: float
    variance: Floats
    own: Floats | None


def flat_weights() -> Floats:
    """What is believed of shapes and walks before any curve was seen ``[shapes, walks]``."""
    return np.outer(PRIOR, np.full(len(WALKS), 1.0 / len(WALKS)))


def fit(reports: Reports, belief: Belief) -> Posterior:
    """Fits all shapes and walks.

    Args:
        reports: At least one.
        belief: Before the curve is seen; its standard deviations and noise are above 0.
    """
    u, y, counts = reports.binned()
    rows = design(u, belief.own)
    features = np.stack([np.ones_like(rows), rows], axis=-1)
    # Values in units of the noise, so that the prior of `s^2` stands at 1.
    prior = np.diag([(belief.noise / belief.level_sd) ** 2, (belief.noise / belief.gain_sd) ** 2])
    mean = np.array([belief.level, belief.gain])
    a, scale = _SHAPE + len(u) / 2.0, _SHAPE * belief.noise**2
    logs, betas, spreads, whites, rests, unmixers, variances = [], [], [], [], [], [], []
    for walk in WALKS:
        root = np.linalg.cholesky(np.diag(1.0 / counts) + walk * np.minimum.outer(u, u))
        inverse = np.linalg.inv(root)
        x, z = inverse @ features, inverse @ y
        precision = np.swapaxes(x, -1, -2) @ x + prior
        spread = np.linalg.inv(precision)
        beta = (spread @ (np.swapaxes(x, -1, -2) @ z + prior @ mean)[..., None])[..., 0]
        rest = z - (x @ beta[..., None])[..., 0]
        away = beta - mean
        b = scale + 0.5 * (np.sum(rest**2, axis=-1) + np.einsum("si,ij,sj->s", away, prior, away))
        volume = -np.sum(np.log(np.diag(root))) - 0.5 * np.linalg.slogdet(precision)[1]
        logs.append(volume - a * np.log(b))
        betas.append(beta)
        spreads.append(spread)
        whites.append(x)
        rests.append(rest)
        unmixers.append(inverse)
        variances.append(b / a)
    evidence = np.stack(logs, axis=-1) + np.log(np.maximum(belief.weights, 1e-300))
    weights = np.exp(evidence - np.max(evidence))
    return Posterior(
        places=u,
        weights=weights / np.sum(weights),
        beta=np.stack(betas),
        spread=np.stack(spreads),
        whitened=np.stack(whites),
        residual=np.stack(rests),
        unmixers=unmixers,
        freedom=2.0 * a,
        variance=np.stack(variances),
        own=belief.own,
    )
