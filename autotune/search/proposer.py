"""Proposes configurations: an Optuna sampler over an in-memory study that is rebuilt from the trials each time.

Nothing of Optuna's state outlives a proposal. The sampler's seed depends on the job's seed and the trial's number only,
so a job that was interrupted proposes what it would have proposed anyway, and a changed space can be searched on.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, create_trial

from autotune.errors import InvalidSpaceError
from autotune.search.distributions import encode, suggest, to_distribution
from autotune.search.objective import series
from autotune.search.samplers import build_sampler
from autotune.search.seeds import child_seed
from autotune.search.types import Point, Trial
from autotune.spec.configs import ordered, start_params
from autotune.spec.domains import contains, draw
from autotune.spec.types import Parameter, Space, Start
from autotune.spec.values import FlatConfig, JsonValue
from autotune.states import TrialState

SAMPLER_TRIES = 64
"""Proposals of the sampler that may break ``require`` or repeat a trial before plain random ones are drawn."""
RANDOM_TRIES = 4096


class Proposer:
    """Proposes searched parameters for the next trial of a space.

    Args:
        space: The space; its sampler's name and seed are used.
        base: The complete configuration without the searched parameters' values, flat.
    """

    def __init__(self, space: Space, base: FlatConfig) -> None:
        self._space = space
        self._base = base
        self._order = ordered(space.search)
        self._distributions = {path: to_distribution(p.domain) for path, p in space.search.items()}

    def propose(self, number: int, trials: Iterable[Trial], curves: Mapping[int, Sequence[Point]]) -> FlatConfig:
        """The searched parameters of trial ``number``: inside the space, meeting ``require`` and ``when``.

        A configuration that was tried already is proposed again only if nothing else can be found.

        Raises:
            InvalidSpaceError: If no configuration that meets ``require`` is found.
        """
        known = list(trials)
        tried = [dict(trial.params) for trial in known]
        repeated: FlatConfig | None = None
        for params in self._candidates(number, known, curves):
            if not self.allowed(params):
                continue
            if params not in tried:
                return params
            repeated = repeated or params
        if repeated is not None:
            return repeated
        raise InvalidSpaceError(
            f"no configuration of the space {self._space.name!r} meets its `require` conditions: "
            f"{SAMPLER_TRIES + RANDOM_TRIES} were drawn.",
            hint="Loosen a `require` condition or widen the ranges it reads.",
        )

    def allowed(self, params: FlatConfig) -> bool:
        """Whether the configuration with these parameters meets every ``require`` condition."""
        values = {**self._base, **params}
        return all(condition.holds(values) for condition in self._space.require)

    def start(self, start: Start) -> FlatConfig:
        """The searched parameters of a start, completed by the configuration's own values."""
        return start_params(self._space, self._base, start)

    def _complete(self, value: Callable[[Parameter], JsonValue]) -> FlatConfig:
        """A value for each parameter that exists, given those before it."""
        params: dict[str, JsonValue] = {}
        for parameter in self._order:
            if self._active(parameter, params):
                params[parameter.path] = value(parameter)
        return params

    def _active(self, parameter: Parameter, params: FlatConfig) -> bool:
        return parameter.when is None or parameter.when.holds({**self._base, **params})

    def _candidates(
        self, number: int, trials: Sequence[Trial], curves: Mapping[int, Sequence[Point]]
    ) -> Iterable[FlatConfig]:
        seed = child_seed(self._space.sampler.seed, "trial", number)
        name = self._space.sampler.name
        conditional = any(parameter.when is not None for parameter in self._order)
        history = [
            frozen for trial in trials if (frozen := self._frozen(trial, curves.get(trial.number, ()))) is not None
        ]
        yield from self._ask(build_sampler(name, seed, conditional=conditional), history)
        rng = random.Random(seed)
        for _ in range(RANDOM_TRIES):
            yield self._complete(lambda parameter: draw(parameter.domain, rng))

    def _ask(self, sampler: optuna.samplers.BaseSampler, history: Sequence[FrozenTrial]) -> Iterable[FlatConfig]:
        study = optuna.create_study(direction=self._space.objective.direction.value, sampler=sampler)
        study.add_trials(history)
        for _ in range(SAMPLER_TRIES):
            trial = study.ask()
            yield self._complete(partial(_suggest, trial))
            # A failed trial is one the sampler ignores: a refused proposal must not teach it anything.
            study.tell(trial, state=optuna.trial.TrialState.FAIL)

    def _frozen(self, trial: Trial, curve: Sequence[Point]) -> FrozenTrial | None:
        """The trial as the sampler may learn from it; ``None`` if it says nothing about the configuration."""
        state = _STATES.get(trial.state)
        params = {path: value for path, value in trial.params.items() if path in self._space.search}
        fits = all(contains(self._space.search[path].domain, value) for path, value in params.items())
        if state is None or not fits:
            return None
        distributions: dict[str, BaseDistribution] = {path: self._distributions[path] for path in params}
        constraints = dict(trial.violations)
        if self._space.constraints or trial.state is TrialState.INFEASIBLE:
            constraints["infeasible"] = 1.0 if trial.state is TrialState.INFEASIBLE else 0.0
        intermediate = {step: value for step, value in series(curve, self._space.objective.metric) if value is not None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return create_trial(
                state=state,
                value=trial.value if state is optuna.trial.TrialState.COMPLETE else None,
                params={path: encode(self._space.search[path].domain, value) for path, value in params.items()},
                distributions=distributions,
                intermediate_values=intermediate if state is not optuna.trial.TrialState.COMPLETE else None,
                constraints=constraints or None,
            )


def _suggest(trial: optuna.Trial, parameter: Parameter) -> JsonValue:
    return suggest(trial, parameter.path, parameter.domain)


_STATES: dict[TrialState, optuna.trial.TrialState] = {
    TrialState.COMPLETED: optuna.trial.TrialState.COMPLETE,
    TrialState.PRUNED: optuna.trial.TrialState.PRUNED,
    TrialState.INFEASIBLE: optuna.trial.TrialState.PRUNED,
    TrialState.RUNNING: optuna.trial.TrialState.RUNNING,
    TrialState.PAUSED: optuna.trial.TrialState.RUNNING,
    TrialState.QUEUED: optuna.trial.TrialState.RUNNING,
}
