"""The objective of a running trial as a sum over its coming reports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.search.extrapolation.fit import Posterior, Reports
from autotune.search.extrapolation.forecast import Mixture, forecast
from autotune.search.extrapolation.shapes import Floats
from autotune.spec.types import Objective, Reduce

HORIZONS = 6
"""Places at which the best or worst value of the rest is looked for."""
COMING = 64
"""Coming reports that are written out at most; more are taken together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """What the objective of a trial may become.

    Attributes:
        mixtures: One distribution, or one for each place at which the extreme may be reached.
        known: The extreme so far, for an objective that is one; else ``None``.
        reduce: How the objective is reduced.
    """

    mixtures: tuple[Mixture, ...]
    known: float | None
    reduce: Reduce

    def above(self, value: float) -> float:
        """The probability that the objective ends above a value.

        Of an extreme it is a bound that errs towards going on: the places are looked at one by one.
        """
        chances = [mixture.above(value) for mixture in self.mixtures]
        if self.known is not None:
            chances.append(float(self.known > value))
        return min(chances) if self.reduce is Reduce.MIN else max(chances)

    @property
    def central(self) -> Mixture:
        """The distribution at the end of the training."""
        return self.mixtures[-1]


def outlook(objective: Objective, reports: Reports, posterior: Posterior, coming: Floats) -> Outlook:
    """The distribution of an objective.

    Args:
        objective: With its reduction and smoothing.
        reports: All finite reports so far.
        posterior: Their fit.
        coming: Where the reports to come stand ``[coming]``, at least one.
    """
    past = len(reports.y)
    if objective.reduce not in (Reduce.MAX, Reduce.MIN):
        weights = _weights(objective, np.concatenate([reports.u, coming]))
        return Outlook(mixtures=(_sum(reports, posterior, coming, weights),), known=None, reduce=objective.reduce)
    places = np.unique(np.linspace(1, len(coming), min(HORIZONS, len(coming))).astype(int))
    mixtures = tuple(
        _sum(reports, posterior, coming[:place], _last(past + int(place), objective.smooth)) for place in places
    )
    smooth = [float(np.mean(reports.y[max(0, end - objective.smooth) : end])) for end in range(1, past + 1)]
    known = max(smooth) if objective.reduce is Reduce.MAX else min(smooth)
    return Outlook(mixtures=mixtures, known=known, reduce=objective.reduce)


def _sum(reports: Reports, posterior: Posterior, coming: Floats, weights: Floats) -> Mixture:
    past = len(reports.y)
    known = float(weights[:past] @ reports.y)
    used = np.flatnonzero(weights[past:])
    groups = np.array_split(used, COMING) if len(used) > COMING else [used[i : i + 1] for i in range(len(used))]
    ahead = weights[past:]
    # Taken together: one report in the middle with the weight of all, less noisy than it is believed to be. That errs
    # on the wide side by less than the noise of one report.
    u = np.array([float(np.mean(coming[group])) for group in groups])
    return forecast(posterior, u, np.array([float(np.sum(ahead[group])) for group in groups]), known)


def _weights(objective: Objective, u: Floats) -> Floats:
    """The weight of each report in an objective that is a sum over them."""
    total = len(u)
    if objective.reduce is Reduce.LAST:
        return _last(total, objective.smooth)
    each = np.full(total, 1.0 / total)
    if objective.reduce is Reduce.AREA and u[-1] > u[0]:
        gaps = np.diff(u)
        each = (np.append(gaps, 0.0) + np.append(0.0, gaps)) / (2.0 * (u[-1] - u[0]))
    weights = np.zeros(total)
    for end in range(1, total + 1):
        start = max(0, end - objective.smooth)
        weights[start:end] += each[end - 1] / (end - start)
    return weights


def _last(total: int, smooth: int) -> Floats:
    weights = np.zeros(total)
    weights[-smooth:] = 1.0 / min(smooth, total)
    return weights
