"""Proposes configurations: a sampler over an in-memory study that is rebuilt from the trials each time.

Nothing of Optuna's state outlives a proposal. The sampler's seed depends on the job's seed and the trial's number only,
so a job that was interrupted proposes what it would have proposed anyway, and a changed space can be searched on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

import optuna

from autotune.errors import InvalidSpaceError
from autotune.search import prior
from autotune.search.advisor import Advisor
from autotune.search.distributions import suggest
from autotune.search.samplers import Asked, Request, build_sampler
from autotune.search.samplers.feasibility import LEARNERS, Feasibility
from autotune.search.samplers.grid import grid
from autotune.search.samplers.history import ASKS, Past, open_study
from autotune.search.seeds import child_seed
from autotune.search.types import Point, Trial
from autotune.spec.configs import ordered, start_params
from autotune.spec.domains import draw
from autotune.spec.types import Parameter, Space, Start
from autotune.spec.values import FlatConfig, JsonValue

RANDOM_TRIES = 4096
"""Plain random proposals that are drawn when everything of the sampler's breaks ``require`` or repeats a trial."""
PRIOR_TRIES = 64
EXPLORED = 1 / 3
"""Share of a model's proposals that are drawn at random instead, whatever it has learnt (ADR 20)."""
MODELS = frozenset({"tpe", "gp", "auto"})
"""The samplers that can settle in one region; the evolutionary ones go on mutating by themselves."""


class Proposer:
    """Proposes searched parameters for the next trial of a space.

    Args:
        space: The space; its sampler's name and seed are used.
        base: The complete configuration without the searched parameters' values, flat.
        total_steps: Training steps of a full trial, for the advice on its curves.
    """

    def __init__(self, space: Space, base: FlatConfig, total_steps: int = 0) -> None:
        self._space = space
        self._base = base
        self._order = ordered(space.search)
        self._past = Past(space)
        self._advisor = Advisor(space, base, total_steps, self.allowed)

    def next(
        self, number: int, trials: Iterable[Trial], curves: Mapping[int, Sequence[Point]]
    ) -> tuple[str, FlatConfig]:
        """Who proposes trial ``number``, and its searched parameters: advice on what has ended, or the sampler.

        Raises:
            InvalidSpaceError: If no configuration that meets ``require`` is found.
        """
        known = list(trials)
        advised = self._advisor.next(known, curves)
        return (advised.label, advised.values) if advised else ("sampler", self.propose(number, known, curves))

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
            f"{ASKS + RANDOM_TRIES} were drawn.",
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
        space, seed = self._space, child_seed(self._space.sampler.seed, "trial", number)
        if space.sampler.name == "grid":
            for point in grid(self._order, space.sampler.seed):
                yield self._complete(partial(_of, point))
        request = Request(space=space, number=number, seed=seed, trials=trials, curves=curves, past=self._past)
        asked: Iterator[FlatConfig] = self._ask(build_sampler(request))
        if space.sampler.name != "grid":
            asked = chain(self._before_the_sampler(number), asked)
        if space.sampler.name in LEARNERS:
            asked = Feasibility(space.search, trials).sift(asked)
        yield from asked
        draws = random.Random(seed)
        for _ in range(RANDOM_TRIES):
            yield self._complete(lambda parameter: draw(parameter.domain, draws))

    def _before_the_sampler(self, number: int) -> Iterator[FlatConfig]:
        """What is proposed in the sampler's place, now and then: what people believe, or a random configuration."""
        seed = self._space.sampler.seed
        if any(parameter.prior is not None for parameter in self._order):
            near = random.Random(child_seed(seed, "prior", number))
            if near.random() < prior.share(number):
                for _ in range(PRIOR_TRIES):
                    yield self._complete(lambda parameter: prior.draw_near(parameter, near))
        anywhere = random.Random(child_seed(seed, "explore", number))
        if self._space.sampler.name in MODELS and anywhere.random() < EXPLORED:
            for _ in range(PRIOR_TRIES):
                yield self._complete(lambda parameter: draw(parameter.domain, anywhere))

    def _ask(self, asked: Asked) -> Iterator[FlatConfig]:
        study = open_study(self._space, asked.sampler, asked.history)
        for _ in range(ASKS):
            trial = study.ask()
            yield self._complete(partial(_suggest, trial))
            # A failed trial is one the sampler ignores: a refused proposal must not teach it anything.
            study.tell(trial, state=optuna.trial.TrialState.FAIL)


def _of(point: FlatConfig, parameter: Parameter) -> JsonValue:
    return point[parameter.path]


def _suggest(trial: optuna.Trial, parameter: Parameter) -> JsonValue:
    return suggest(trial, parameter.path, parameter.domain)
