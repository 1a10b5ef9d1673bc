"""The scrambled Sobol sequence, each trial with the point of its own number.

Optuna counts the points it has given out in the attributes of a study; our studies live for one proposal.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial


class SobolByNumber(optuna.samplers.QMCSampler):
    """Optuna's sampler without its counter.

    Args:
        seed: Scrambles the sequence; the same for all trials of a job.
        own_seed: For the parameters that do not always exist, which the sequence leaves out.
        number: The trial's number.
        trials: Trials of the job.
        distributions: The parameters that always exist.
    """

    def __init__(
        self, *, seed: int, own_seed: int, number: int, trials: int, distributions: Mapping[str, BaseDistribution]
    ) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            super().__init__(
                scramble=True,
                seed=seed,
                independent_sampler=optuna.samplers.RandomSampler(seed=own_seed),
                warn_independent_sampling=False,
            )
        self._point = number
        self._stride = max(trials, number + 1)
        self._distributions = dict(distributions)

    def infer_relative_search_space(self, *_: optuna.Study | FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that always exist, from the first trial on."""
        return self._distributions

    def _find_sample_id(self, *_: object) -> int:
        # A point that `require` refuses is replaced by one that is no other trial's first.
        self._point += self._stride
        return self._point - self._stride
