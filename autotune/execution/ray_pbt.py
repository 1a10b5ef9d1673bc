"""Ray Tune's own population based training as the explorer of a search.

Its scheduler is built for Tune's controller, which owns trials, checkpoints and processes; here the coordinator does.
So the scheduler is asked for its decisions only: which members are in its quantiles, whom a bad one clones, and how a
configuration is perturbed. Its `_exploit`, which would act on the controller, notes the pair instead.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

from ray.tune.experiment import Trial as RayTrial
from ray.tune.schedulers.pbt import PopulationBasedTraining, _PBTTrialState

from autotune.search.population import Accept, Exploit, Member
from autotune.search.seeds import child_seed
from autotune.spec.domains import draw, same
from autotune.spec.types import Choice, Parameter, Population
from autotune.spec.values import FlatConfig, JsonValue

TRIES = 64
"""Perturbations that are drawn before the better configuration is taken over as it is."""


@dataclass(eq=False, kw_only=True)
class _Standing:
    """What the scheduler reads of one of Tune's trials: paused, with a checkpoint."""

    number: int
    config: dict[str, JsonValue]
    experiment_tag: str = ""
    status: str = RayTrial.PAUSED
    checkpoint: object = field(default_factory=object)
    temporary_state: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(saving_to=None))

    def is_finished(self) -> bool:
        """Whether it takes no part any more."""
        return False


class _Decisions(PopulationBasedTraining):  # type: ignore[misc]
    """Ray's scheduler, which notes who would clone whom."""

    def judge(self, standings: Mapping[_Standing, float]) -> list[tuple[int, int]]:
        """(loser, winner) for each member of the bottom quantile."""
        self.pairs: list[tuple[int, int]] = []
        for trial, score in standings.items():
            state = self._trial_state[trial] = _PBTTrialState(trial)
            state.last_score = score
        lower, upper = self._quantiles()
        for trial in [*upper, *lower]:  # the better ones first: they note the checkpoints
            self._checkpoint_or_exploit(trial, None, upper, lower)
        return self.pairs

    def _exploit(self, _: object, trial: _Standing, trial_to_clone: _Standing) -> None:
        self.pairs.append((trial.number, trial_to_clone.number))


class RayExplorer:
    """Decides a generation with Ray Tune's `PopulationBasedTraining`.

    Args:
        population: Quantile, resampling and perturbation.
        search: The searched parameters.
    """

    def __init__(self, population: Population, search: Mapping[str, Parameter]) -> None:
        self._population = population
        self._search = search

    def explore(self, members: Sequence[Member], seed: int, accept: Accept) -> Sequence[Exploit]:
        """The exploits of one generation; the same for the same members and seed."""
        if not self._search:
            return ()
        draws = random.Random(child_seed(seed, "draws"))
        with _seeded(seed):
            scheduler = _Decisions(
                mode="max",
                metric="score",
                perturbation_interval=self._population.interval,
                hyperparam_mutations=self._mutations(draws),
                quantile_fraction=self._population.quantile,
                resample_probability=self._population.resample_probability,
                perturbation_factors=(self._population.perturbation, 1 / self._population.perturbation),
                log_config=False,
                synch=True,
            )
            pairs = scheduler.judge({self._standing(member, draws): member.score for member in members})
            known = {member.number: member for member in members}
            return [
                Exploit(loser=loser, winner=winner, params=self._perturbed(scheduler, known[winner], draws, accept))
                for loser, winner in pairs
                if known[winner].score > known[loser].score
            ]

    def _perturbed(
        self, scheduler: PopulationBasedTraining, winner: Member, draws: random.Random, accept: Accept
    ) -> FlatConfig:
        for _ in range(TRIES):
            config, _ = scheduler._get_new_config(None, self._standing(winner, draws))
            fitted = accept({path: self._decoded(path, value) for path, value in config.items()})
            if fitted is not None:
                return fitted
        return winner.values

    def _mutations(self, draws: random.Random) -> dict[str, object]:
        """What Ray may do to each value: move to a neighbour in a list, or multiply and draw anew in a range."""
        return {
            path: list(range(len(parameter.domain.options)))
            if isinstance(parameter.domain, Choice)
            else partial(draw, parameter.domain, draws)
            for path, parameter in self._search.items()
        }

    def _standing(self, member: Member, draws: random.Random) -> _Standing:
        config = {path: self._encoded(path, member.values.get(path), draws) for path in self._search}
        return _Standing(number=member.number, config=config)

    def _encoded(self, path: str, value: JsonValue, draws: random.Random) -> JsonValue:
        """The value as Ray perturbs it: the place in a list of choices, else the number; drawn where there is none."""
        domain = self._search[path].domain
        if isinstance(domain, Choice):
            return next((place for place, option in enumerate(domain.options) if same(option, value)), -1)
        return draw(domain, draws) if isinstance(value, bool) or not isinstance(value, int | float) else value

    def _decoded(self, path: str, value: object) -> JsonValue:
        domain = self._search[path].domain
        if isinstance(domain, Choice):
            assert isinstance(value, int)
            return domain.options[value]
        assert isinstance(value, int | float)
        return value


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Gives Ray, which draws from the one generator of the process, a stream of its own."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
