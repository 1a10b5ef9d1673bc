"""How likely a proposal is to be one of those that cannot work, going by the trials around it.

Samplers model the objective and only lean away from what broke. Where throughput grows until the memory is full, the
best lies right before the cliff and they fall off it again and again. So a proposal of a sampler that learns is weighed
once more: with ``d`` the distance to an ended trial in the unit cube of the parameters (a choice is 0 or 1 away) and
``w = exp(-d^2 / 2 h^2)``, the chance that it breaks is ``sum of w over broken / (sum of w over all + PRIOR)``, the
estimate of Nadaraya and Watson (1964), drawn to 0 where nobody has been. The kernel narrows as trials gather,
``h = WIDTH * n^(-1/(p + 4))`` for ``n`` trials and ``p`` parameters (Scott 1992).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from autotune.search.types import Trial
from autotune.spec.types import Choice, Domain, Parameter
from autotune.spec.values import FlatConfig, JsonValue
from autotune.states import TrialState

LEARNERS = frozenset({"tpe", "gp", "nsga2", "nsga3", "cmaes", "auto"})
"""The samplers whose proposals are weighed; the others are what they are: random, even, or a whole grid."""
FEWEST = 3
"""Broken trials before anything is refused."""
REFUSED = 0.5
"""Chance to break from which on a proposal is set aside."""
TRIES = 24
"""Proposals that are set aside at most; then the least likely to break is taken."""
PRIOR = 0.35
WIDTH = 0.35


class Feasibility:
    """The ended trials of a study, broken and sound.

    Args:
        search: The searched parameters.
        trials: All trials.
    """

    def __init__(self, search: Mapping[str, Parameter], trials: Iterable[Trial]) -> None:
        self._search = search
        ended = [trial for trial in trials if trial.state in _ENDED]
        self._broken = np.array([trial.state is TrialState.INFEASIBLE for trial in ended], dtype=float)
        self._choice = np.array([isinstance(parameter.domain, Choice) for parameter in search.values()])
        self._points = np.array([self._place(trial.params) for trial in ended]).reshape(len(ended), len(search))
        self._width = WIDTH * math.sqrt(len(search)) * max(1, len(ended)) ** (-1 / (len(search) + 4))

    def chance(self, params: FlatConfig) -> float:
        """The chance that a configuration cannot work, 0 to 1."""
        apart = self._points - np.array(self._place(params))
        # A parameter that exists on one side only is as far away as another choice; on neither side it is no matter.
        apart = np.where(self._choice, apart != 0, apart)
        squared = np.sum(np.minimum(apart**2, 1.0), axis=1)
        weights = np.exp(-squared / (2 * self._width**2))
        return float(weights @ self._broken / (np.sum(weights) + PRIOR))

    def sift(self, candidates: Iterator[FlatConfig]) -> Iterator[FlatConfig]:
        """The candidates without those that are likely to break; these come after all, the least likely first."""
        if np.sum(self._broken) < FEWEST:
            yield from candidates
            return
        aside: list[tuple[float, int, FlatConfig]] = []
        for params in candidates:
            chance = self.chance(params)
            if chance < REFUSED:
                yield params
                continue
            aside.append((chance, len(aside), params))
            if len(aside) == TRIES:
                break
        for _, _, params in sorted(aside, key=lambda one: one[:2]):
            yield params
        yield from candidates

    def _place(self, params: FlatConfig) -> list[float]:
        """Each parameter's place in its range, 0 to 1, or the number of a choice; far outside where there is none."""
        return [
            _unit(parameter.domain, params[path]) if path in params else _NOWHERE
            for path, parameter in self._search.items()
        ]


_ENDED = frozenset({TrialState.INFEASIBLE, TrialState.COMPLETED, TrialState.PRUNED, TrialState.PAUSED})
_NOWHERE = -2.0


def _unit(domain: Domain, value: JsonValue) -> float:
    if isinstance(domain, Choice):
        return float(domain.options.index(value)) if value in domain.options else _NOWHERE
    if not isinstance(value, int | float) or domain.low == domain.high:
        return 0.0
    if domain.log and value > 0:
        return math.log(value / domain.low) / math.log(domain.high / domain.low)
    return (value - domain.low) / (domain.high - domain.low)
