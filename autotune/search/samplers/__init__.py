"""Samplers: Optuna's, by name, each built afresh for every proposal from its own seed.

CMA-ES is not among them: it needs a package of its own, keeps its distribution as a pickle in the attributes of the
trials that it has proposed, and wants a thousand trials before it pays.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import optuna
from optuna.trial import FrozenTrial

from autotune.errors import InvalidSpaceError
from autotune.search.distributions import to_distribution
from autotune.search.samplers.history import Past
from autotune.search.samplers.qmc import SobolByNumber
from autotune.search.types import Point, Trial
from autotune.spec.types import Choice, Space

# Optuna announces each study it creates and recommends packages; ours live for one proposal and are nobody's news.
optuna.logging.set_verbosity(optuna.logging.ERROR)

STARTUP_TRIALS = 8
"""Trials with a verdict before a model takes over from random proposals."""
POPULATION = 16
"""Trials of a generation of NSGA-II: Optuna's 50 would be most of a job's budget."""
AUTO_GP_TRIALS = 100
"""Largest budget for which ``auto`` takes the Gaussian process."""

Curves: TypeAlias = Mapping[int, Sequence[Point]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One proposal that is asked for.

    Attributes:
        space: What is searched.
        number: The number of the trial that is proposed.
        seed: Seed of this proposal alone.
        trials: All trials so far, by number.
        curves: Their curves.
        past: Converts them for Optuna.
    """

    space: Space
    number: int
    seed: int
    trials: Sequence[Trial]
    curves: Curves
    past: Past


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A sampler and the history it is asked over."""

    sampler: optuna.samplers.BaseSampler
    history: Sequence[FrozenTrial]


def _tpe(request: Request) -> Asked:
    # Optuna is verbose about options that are stable enough for us: the version is locked and its proposals are tested.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = optuna.samplers.TPESampler(
            seed=request.seed,
            multivariate=True,
            group=conditional(request.space),
            constant_liar=True,
            n_startup_trials=STARTUP_TRIALS,
            warn_independent_sampling=False,
        )
    return Asked(sampler=sampler, history=request.past.as_it_went(request.trials, request.curves))


def _random(request: Request) -> Asked:
    return Asked(sampler=optuna.samplers.RandomSampler(seed=request.seed), history=())


def _gp(request: Request) -> Asked:
    _needs(("torch", "scipy"), "gp")
    sampler = optuna.samplers.GPSampler(
        seed=request.seed, n_startup_trials=STARTUP_TRIALS, warn_independent_sampling=False
    )
    return Asked(sampler=sampler, history=request.past.at_one_step(request.trials, request.curves, _enough(request)))


def _nsga2(request: Request) -> Asked:
    sampler = optuna.samplers.NSGAIISampler(seed=request.seed, population_size=POPULATION)
    history = request.past.at_one_step(request.trials, request.curves, _enough(request))
    complete = [trial for trial in history if trial.state is optuna.trial.TrialState.COMPLETE]
    # Optuna writes a trial's generation when it proposes it; here it follows from the order of the trials.
    for place, trial in enumerate(complete):
        trial.system_attrs[sampler._get_generation_key()] = place // POPULATION
    return Asked(sampler=sampler, history=history)


def _qmc(request: Request) -> Asked:
    _needs(("scipy",), "qmc")
    space, always = request.space, [p for p in request.space.search.values() if p.when is None]
    sampler = SobolByNumber(
        seed=space.sampler.seed,
        own_seed=request.seed,
        number=request.number,
        trials=space.budget.trials,
        distributions={parameter.path: to_distribution(parameter.domain) for parameter in always},
    )
    return Asked(sampler=sampler, history=())


def _auto(request: Request) -> Asked:
    return SAMPLERS[automatic(request.space)](request)


SAMPLERS: dict[str, Callable[[Request], Asked]] = {
    "tpe": _tpe,
    "gp": _gp,
    "nsga2": _nsga2,
    "qmc": _qmc,
    "random": _random,
    # Its points come from `grid.py`; what follows when all were tried is random.
    "grid": _random,
    "auto": _auto,
}
"""Name in the space file -> how it is built for one proposal."""


def automatic(space: Space) -> str:
    """The sampler that ``auto`` stands for.

    ``gp`` where a Gaussian process is at its best: only numbers, each parameter always there, at most
    ``AUTO_GP_TRIALS`` trials, and the packages it needs are installed. ``tpe`` otherwise.
    """
    numbers = not any(isinstance(parameter.domain, Choice) for parameter in space.search.values())
    small = space.budget.trials <= AUTO_GP_TRIALS
    return "gp" if numbers and small and not conditional(space) and not _missing(("torch", "scipy")) else "tpe"


def conditional(space: Space) -> bool:
    """Whether some parameters do not always exist."""
    return any(parameter.when is not None for parameter in space.search.values())


def build_sampler(request: Request) -> Asked:
    """Builds the space's sampler for one proposal.

    Raises:
        InvalidSpaceError: If the name is unknown, or a package that it needs is not installed.
    """
    name = request.space.sampler.name
    if name not in SAMPLERS:
        raise InvalidSpaceError(f"unknown sampler {name!r}; known are {', '.join(sorted(SAMPLERS))}.")
    return SAMPLERS[name](request)


def _enough(request: Request) -> int:
    return max(STARTUP_TRIALS, len(request.space.search) + 1)


def _missing(packages: Sequence[str]) -> list[str]:
    return [package for package in packages if importlib.util.find_spec(package) is None]


def _needs(packages: Sequence[str], name: str) -> None:
    missing = _missing(packages)
    if missing:
        raise InvalidSpaceError(
            f"the sampler {name!r} needs {' and '.join(missing)}, which is not installed.",
            hint=f"Run: pip install {' '.join(missing)}. Or write sampler: {{name: tpe}}.",
        )
