"""How much each parameter should count when a configuration is mapped to a recorded run.

The weights are those under which a recorded run's final objective is foretold best by its nearest neighbour: the other
parameters hardly matter to the curve, so a difference in them should not keep a configuration from a run like it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.execution.replay import place
from curve_bank.bank import Run, domains

LEVELS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
SWEEPS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Fidelity:
    """How well the bank answers for a configuration that it does not hold.

    Attributes:
        weights: Parameter -> weight.
        foretold: Part of the variance of the final objectives that the nearest neighbour foretells.
    """

    weights: Mapping[str, float]
    foretold: float


def fidelity(runs: Sequence[Run]) -> Fidelity:
    """The weights found axis by axis over ``LEVELS`` by the error of the nearest neighbour, each run left out in turn.

    Args:
        runs: The runs of one task; the first seed of each configuration counts. A run that did not end counts as worst.
    """
    first = [run for run in runs if run.seed == runs[0].seed]
    worst = min((run.final for run in first if run.final is not None), default=0.0)
    finals = np.array([worst if run.final is None else run.final for run in first])
    axes = _axes(first)
    chosen = np.ones(len(axes))
    best = _error(axes, chosen, finals)
    for _ in range(SWEEPS):
        for axis in range(len(axes)):
            for level in LEVELS:
                tried = chosen.copy()
                tried[axis] = level
                error = _error(axes, tried, finals)
                if error < best - 1e-12:
                    chosen, best = tried, error
    names = dict(zip(domains(), (float(value) for value in chosen), strict=True))
    return Fidelity(weights=names, foretold=1.0 - best / float(np.var(finals)))


def _axes(runs: Sequence[Run]) -> list[np.ndarray]:
    """The squared differences of all pairs of runs along each parameter, 1 on average."""
    axes = []
    for path, domain in domains().items():
        at = [place(domain, run.params[path]) for run in runs]
        column = np.array(at)
        ranged = isinstance(at[0], float)
        squared = np.subtract.outer(column, column) ** 2.0 if ranged else np.not_equal.outer(column, column) * 1.0
        spread = squared.sum() / max(1, len(runs) * (len(runs) - 1))
        axes.append(squared / spread if spread > 0 else squared)
    return axes


def _error(axes: Sequence[np.ndarray], factors: np.ndarray, finals: np.ndarray) -> float:
    distance = np.einsum("a,aij->ij", factors, np.array(axes)) + np.diag(np.full(len(finals), 1e9))
    return float(np.mean((finals - finals[np.argmin(distance, axis=1)]) ** 2))
