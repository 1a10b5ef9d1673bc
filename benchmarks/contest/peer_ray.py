"""Ray Tune's own `OptunaSearch` and `ASHAScheduler`, called as its controller calls them, without actors."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from autotune.search.types import EndKind
from autotune.spec.types import Choice, Domain, IntRange
from autotune.spec.values import FlatConfig
from contest.peers import Peer
from contest.problem import Problem

METRIC = "objective"


@dataclass(frozen=True, slots=True)
class RayTrial:
    """All that the scheduler reads of a trial."""

    trial_id: str


class RayEngine:
    """The searcher and the scheduler with their own defaults, a full trial's length as `max_t`."""

    def __init__(self, problem: Problem, seed: int) -> None:
        os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
        from ray import tune
        from ray.tune.schedulers import ASHAScheduler, TrialScheduler
        from ray.tune.search.optuna import OptunaSearch

        logging.getLogger("ray").setLevel(logging.ERROR)
        space = {path: _ray_domain(tune, domain) for path, domain in problem.domains.items()}
        self._searcher = OptunaSearch(metric=METRIC, mode="max", seed=seed)
        self._searcher.set_search_properties(METRIC, "max", space)
        self._scheduler = ASHAScheduler(metric=METRIC, mode="max", max_t=problem.steps)
        self._stop = TrialScheduler.STOP
        self._last: dict[int, dict[str, object]] = {}

    def ask(self, number: int) -> FlatConfig:
        """What the searcher suggests; the scheduler hears of the trial."""
        config = self._searcher.suggest(str(number))
        assert config is not None
        self._scheduler.on_trial_add(None, RayTrial(str(number)))
        return config

    def goes_on(self, number: int, step: int, value: float | None) -> bool:
        """What the scheduler says; the searcher hears of it too."""
        result = {"training_iteration": step, METRIC: float("nan") if value is None else value}
        self._last[number] = result
        decision = self._scheduler.on_trial_result(None, RayTrial(str(number)), result)
        self._searcher.on_trial_result(str(number), result)
        return decision != self._stop

    def tell(self, number: int, kind: EndKind, value: float | None) -> None:
        """The end, as the controller reports it: stopped by the scheduler is complete, a crash is an error."""
        del value
        trial, result = RayTrial(str(number)), self._last.get(number)
        if kind in (EndKind.FINISHED, EndKind.STOPPED) and result is not None:
            self._scheduler.on_trial_complete(None, trial, result)
            self._searcher.on_trial_complete(str(number), result=result)
        else:
            self._scheduler.on_trial_error(None, trial)
            self._searcher.on_trial_complete(str(number), error=True)


def ray_peer(problem: Problem, seed: int, *, trials: int, parallel: int) -> Peer:
    """Ray Tune's usual pair."""
    return Peer(engine=RayEngine(problem, seed), problem=problem, trials=trials, parallel=parallel)


def _ray_domain(tune: object, domain: Domain) -> object:
    if isinstance(domain, Choice):
        return tune.choice(list(domain.options))
    if isinstance(domain, IntRange):
        return tune.randint(domain.low, domain.high + 1)
    return (tune.loguniform if domain.log else tune.uniform)(domain.low, domain.high)
