"""From a fitted curve to the distribution of a weighted sum of its coming reports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.search.extrapolation.fit import WALKS, Posterior
from autotune.search.extrapolation.shapes import Floats, design


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixture:
    """A mixture of Student's t distributions with the same freedom.

    Attributes:
        weights: Of its parts ``[parts]``.
        centre: Their locations ``[parts]``.
        scale: Their scales ``[parts]``.
        freedom: Degrees of freedom.
    """

    weights: Floats
    centre: Floats
    scale: Floats
    freedom: float

    @property
    def mean(self) -> float:
        """Its mean."""
        return float(self.weights @ self.centre)

    @property
    def sd(self) -> float:
        """Its standard deviation."""
        within = self.scale**2 * self.freedom / (self.freedom - 2.0)
        return float(np.sqrt(self.weights @ (within + (self.centre - self.mean) ** 2)))

    def above(self, value: float) -> float:
        """The probability of more than a value."""
        from scipy.special import stdtr  # a search that never asks for it need not load it

        chance = self.weights @ stdtr(self.freedom, (self.centre - value) / self.scale)
        return min(1.0, float(chance))


def forecast(posterior: Posterior, u: Floats, weights: Floats, known: float = 0.0) -> Mixture:
    """The distribution of ``known + sum_i weights_i y(u_i)`` over coming reports, their noise included.

    Args:
        posterior: The fitted curve.
        u: Where the coming reports stand, behind those that were fitted ``[coming]``.
        weights: Their weights ``[coming]``.
        known: What the reports of the past add.
    """
    shared = np.minimum.outer(u, u)
    sums = design(u, posterior.own) @ weights
    mass = float(np.sum(weights))
    centres, scales = [], []
    for index, walk in enumerate(WALKS):
        own = float(weights @ weights + walk * (weights @ shared @ weights))
        # What the coming reports share with the past is the walk up to the last place.
        common = posterior.unmixers[index] @ (walk * np.minimum.outer(posterior.places, u) @ weights)
        lead = np.stack([np.full_like(sums, mass), sums], axis=-1) - np.einsum(
            "p,spi->si", common, posterior.whitened[index]
        )
        centre = np.einsum("si,si->s", np.stack([np.full_like(sums, mass), sums], axis=-1), posterior.beta[index])
        centre = centre + posterior.residual[index] @ common
        unsure = own - common @ common + np.einsum("si,sij,sj->s", lead, posterior.spread[index], lead)
        centres.append(centre + known)
        scales.append(np.sqrt(np.maximum(unsure, 1e-12) * posterior.variance[index]))
    return Mixture(
        weights=posterior.weights.T.ravel(),
        centre=np.concatenate(centres),
        scale=np.concatenate(scales),
        freedom=posterior.freedom,
    )
