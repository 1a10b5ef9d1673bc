"""Samplers: Optuna's, by name, each built afresh for every proposal from its own seed."""

from __future__ import annotations

import warnings
from typing import Protocol

import optuna

from autotune.errors import InvalidSpaceError

# Optuna announces each study it creates; ours live for one proposal and are nobody's news.
optuna.logging.set_verbosity(optuna.logging.WARNING)

STARTUP_TRIALS = 8
"""Trials with a verdict before TPE's model takes over from random proposals."""


class SamplerFactory(Protocol):
    """Builds a sampler from a seed; ``conditional`` says that some parameters do not always exist."""

    def __call__(self, seed: int, *, conditional: bool) -> optuna.samplers.BaseSampler:
        """Builds the sampler."""
        ...


def _tpe(seed: int, *, conditional: bool) -> optuna.samplers.BaseSampler:
    # Optuna is verbose about options that are stable enough for us: the version is locked and its proposals are tested.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return optuna.samplers.TPESampler(
            seed=seed,
            multivariate=True,
            group=conditional,
            constant_liar=True,
            n_startup_trials=STARTUP_TRIALS,
            warn_independent_sampling=False,
        )


def _random(seed: int, *, conditional: bool) -> optuna.samplers.BaseSampler:  # noqa: ARG001  the same for all spaces
    return optuna.samplers.RandomSampler(seed=seed)


SAMPLERS: dict[str, SamplerFactory] = {"tpe": _tpe, "random": _random}
"""Name in the space file -> factory from a seed."""


def build_sampler(name: str, seed: int, *, conditional: bool) -> optuna.samplers.BaseSampler:
    """Builds a sampler.

    Raises:
        InvalidSpaceError: If the name is unknown.
    """
    if name not in SAMPLERS:
        raise InvalidSpaceError(f"unknown sampler {name!r}; known are {', '.join(sorted(SAMPLERS))}.")
    return SAMPLERS[name](seed, conditional=conditional)
