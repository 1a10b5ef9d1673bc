"""CMA-ES whose distribution follows from the trials, generation by generation, each time it is asked.

Optuna keeps the distribution as a pickle in the attributes of the trials that it has proposed; our studies live for one
proposal, and nothing that is read back from a record is unpickled. So the generations are told again from the first:
microseconds each. Trials that others proposed (starts, the prior) are told like its own, as injected solutions are
(Hansen 2011, "Injecting External Solutions Into CMA-ES", arXiv:1110.4181).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import optuna
from optuna._transform import _SearchSpaceTransform
from optuna.distributions import BaseDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

if TYPE_CHECKING:
    from cmaes import CMA


class CmaByOrder(optuna.samplers.CmaEsSampler):
    """Optuna's sampler without its memory.

    Choices and parameters that do not always exist are none of its business: TPE proposes them, one at a time. The
    strategy looks at ranks only, so constraints need no weight: who breaks more of them ranks behind.

    Args:
        seed: Of this proposal.
        distributions: The numbers that always exist, at least one.
        sign: 1 where more is better, -1 where less is.
    """

    def __init__(self, *, seed: int, distributions: Mapping[str, BaseDistribution], sign: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            one_at_a_time = optuna.samplers.TPESampler(seed=seed, warn_independent_sampling=False)
        super().__init__(seed=seed, independent_sampler=one_at_a_time, warn_independent_sampling=False)
        self._distributions = dict(distributions)
        self._sign = sign

    def infer_relative_search_space(self, *_: optuna.Study | FrozenTrial) -> dict[str, BaseDistribution]:
        """The numbers that always exist, from the first trial on."""
        return self._distributions

    def _restore_optimizer(self, completed_trials: Sequence[FrozenTrial]) -> CMA:
        """The distribution after all whole generations so far."""
        transform = _SearchSpaceTransform(self._distributions, transform_step=True, transform_0_1=True)
        # The direction matters to Optuna's warm start only.
        strategy: CMA = self._init_optimizer(transform, StudyDirection.MINIMIZE)
        able = [trial for trial in completed_trials if self._distributions.keys() <= trial.params.keys()]
        known = sorted(able, key=lambda trial: trial.number)
        size = strategy.population_size
        for start in range(0, len(known) - size + 1, size):
            generation = known[start : start + size]
            ranked = sorted(generation, key=self._place)
            points = [transform.transform({p: trial.params[p] for p in self._distributions}) for trial in ranked]
            strategy.tell([(point, float(rank)) for rank, point in enumerate(points)])
        return strategy

    def _get_solution_trials(self, *_: object) -> list[FrozenTrial]:
        return []  # everything was told above

    def _place(self, trial: FrozenTrial) -> tuple[float, float, int]:
        """Where a trial stands within its generation: what breaks a constraint stands behind."""
        broken = sum(max(0.0, violation) for violation in trial.constraints.values())
        return broken, -self._sign * (trial.value or 0.0), trial.number
