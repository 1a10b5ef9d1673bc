"""Samplers: Optuna's, by name, each built afresh for every proposal from its own seed; others come as plugins."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial

from autotune.errors import InvalidSpaceError
from autotune.search.distributions import to_distribution
from autotune.search.samplers.cma import CmaByOrder
from autotune.search.samplers.history import Past
from autotune.search.samplers.qmc import SobolByNumber
from autotune.search.types import Point, Trial
from autotune.spec import plugins
from autotune.spec.types import Choice, Space

# Optuna announces each study it creates and recommends packages; ours live for one proposal and are nobody's news.
optuna.logging.set_verbosity(optuna.logging.ERROR)

STARTUP_TRIALS = 8
"""Trials with a verdict before a model takes over from random proposals."""
POPULATION = 16
"""Trials of a generation of NSGA-II: Optuna's 50 would be most of a job's budget."""
AUTO_GP_TRIALS = 100
"""Largest budget for which ``auto`` takes the Gaussian process."""

GeneticSampler: TypeAlias = optuna.samplers.NSGAIISampler | optuna.samplers.NSGAIIISampler
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
    several = bool(request.space.objective.also)
    # Optuna is verbose about options that are stable enough for us: the version is locked and its proposals are tested.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = optuna.samplers.TPESampler(
            seed=request.seed,
            # With several objectives Optuna's own choice is one parameter at a time (its PR 6766).
            multivariate=not several,
            group=conditional(request.space) and not several,
            constant_liar=True,
            n_startup_trials=STARTUP_TRIALS,
            warn_independent_sampling=False,
        )
    # How far a stopped trial came says nothing about several objectives, and Optuna's TPE does not take it.
    return at_one_step(request, sampler) if several else as_it_went(request, sampler)


def _random(request: Request) -> Asked:
    return Asked(sampler=optuna.samplers.RandomSampler(seed=request.seed), history=())


def _gp(request: Request) -> Asked:
    _needs(("torch", "scipy"), "gp")
    sampler = optuna.samplers.GPSampler(
        seed=request.seed, n_startup_trials=STARTUP_TRIALS, warn_independent_sampling=False
    )
    return at_one_step(request, sampler)


def _nsga2(request: Request) -> Asked:
    return _by_generations(request, optuna.samplers.NSGAIISampler(seed=request.seed, population_size=POPULATION))


def _nsga3(request: Request) -> Asked:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.NSGAIIISampler(seed=request.seed, population_size=POPULATION)
    return _by_generations(request, sampler)


def _by_generations(request: Request, sampler: GeneticSampler) -> Asked:
    asked = at_one_step(request, sampler)
    complete = [trial for trial in asked.history if trial.state is optuna.trial.TrialState.COMPLETE]
    # Optuna writes a trial's generation when it proposes it; here it follows from the order of the trials.
    for place, trial in enumerate(complete):
        trial.system_attrs[sampler._get_generation_key()] = place // POPULATION
    return asked


def _cmaes(request: Request) -> Asked:
    _needs(("cmaes",), "cmaes")
    numbers = numeric(request.space)
    objective = request.space.objective
    if not numbers or objective.also:
        raise InvalidSpaceError(
            "the sampler 'cmaes' needs one objective and a number that always exists; "
            f"got {len(objective.each)} objectives and {len(numbers)} numbers.",
            hint="Write sampler: {name: tpe}.",
        )
    return at_one_step(request, CmaByOrder(seed=request.seed, distributions=numbers, sign=objective.sign))


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
    "nsga3": _nsga3,
    "cmaes": _cmaes,
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


def numeric(space: Space) -> dict[str, BaseDistribution]:
    """The numbers that always exist and have more than one value."""
    found = {
        parameter.path: to_distribution(parameter.domain)
        for parameter in space.search.values()
        if parameter.when is None and not isinstance(parameter.domain, Choice)
    }
    return {path: distribution for path, distribution in found.items() if not distribution.single()}


def as_it_went(request: Request, sampler: optuna.samplers.BaseSampler) -> Asked:
    """A sampler that knows stopped trials by how far they came."""
    return Asked(sampler=sampler, history=request.past.as_it_went(request.trials, request.curves))


def at_one_step(request: Request, sampler: optuna.samplers.BaseSampler) -> Asked:
    """A sampler that sees all trials as if measured at the same step."""
    return Asked(sampler=sampler, history=request.past.at_one_step(request.trials, request.curves, _enough(request)))


def build_sampler(request: Request) -> Asked:
    """Builds the space's sampler for one proposal.

    A plugin (an entry point of the group ``autotune.samplers``) is called with the request. It answers an ``Asked``, or
    one of Optuna's samplers, which then learns from the trials as this project's own would.

    Raises:
        InvalidSpaceError: If the name is unknown, a package that it needs is not installed, or a plugin is broken.
    """
    name = request.space.sampler.name
    if name in SAMPLERS:
        return SAMPLERS[name](request)
    if name not in plugins.names(plugins.SAMPLERS):
        raise InvalidSpaceError(f"unknown sampler {name!r}; known are {', '.join(sorted(SAMPLERS))}.")
    asked = plugins.called(plugins.SAMPLERS, name, request)
    if isinstance(asked, optuna.samplers.BaseSampler):
        return at_one_step(request, asked) if request.space.objective.also else as_it_went(request, asked)
    if not isinstance(asked, Asked):
        raise plugins.broken(plugins.SAMPLERS, name, f"it answered {type(asked).__name__}, not a sampler of Optuna's")
    return asked


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
