"""The peers: Optuna's own samplers and pruners, and Ray Tune's own searcher and scheduler, behind our port.

Each gets the objective that we get: the mean of the last evaluations, at every step. Everything else is its default.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Protocol

import optuna

from autotune.search.distributions import decode, to_distribution
from autotune.search.types import (
    Attempt,
    Continue,
    Done,
    EndKind,
    Launch,
    Metrics,
    NextTrial,
    Outcome,
    Reason,
    Stop,
    Verdict,
    Wait,
)
from autotune.spec.values import FlatConfig
from contest.problem import Problem, smoothed

BAD = Stop(reason=Reason(pruner="peer", text="the peer's pruner stops it", numbers={}))


class Engine(Protocol):
    """What a peer must answer."""

    def ask(self, number: int) -> FlatConfig:
        """The configuration of a trial."""

    def goes_on(self, number: int, step: int, value: float | None) -> bool:
        """Takes the objective at a step; whether the trial goes on."""

    def tell(self, number: int, kind: EndKind, value: float | None) -> None:
        """Takes a trial's end, with its last objective."""


@dataclass(kw_only=True, slots=True)
class Peer:
    """Lets a peer play against the simulator.

    Attributes:
        engine: The peer.
        problem: What is searched.
        trials: At most this many.
        parallel: Trials at a time.
    """

    engine: Engine
    problem: Problem
    trials: int
    parallel: int
    launched: int = 0
    running: set[int] = field(default_factory=set)
    history: dict[int, list[float]] = field(default_factory=dict)

    def next_trial(self, now: float) -> NextTrial:
        """A fresh trial while there is room."""
        del now
        if len(self.running) >= self.parallel:
            return Wait()
        if self.launched >= self.trials:
            return Wait() if self.running else Done()
        number = self.launched
        self.launched += 1
        self.running.add(number)
        attempt = Attempt(trial=number, number=1, token=str(number))
        return Launch(attempt=attempt, config=self.engine.ask(number), directory="")

    def on_metrics(self, attempt: Attempt, step: int, metrics: Metrics, cost_s: float, now: float) -> Verdict:
        """What the peer says of a step."""
        del cost_s, now
        value, known = metrics.get(self.problem.metric), self.history.setdefault(attempt.trial, [])
        if value is not None:
            known.append(value)
        told = smoothed(known, self.problem.smooth) if value is not None else None
        return Continue() if self.engine.goes_on(attempt.trial, step, told) else BAD

    def on_heartbeat(self, attempt: Attempt, cost_s: float, now: float) -> Verdict:
        """Nothing to say."""
        del attempt, cost_s, now
        return Continue()

    def on_checkpoint(self, attempt: Attempt, step: int, path: str, now: float) -> None:
        """Nothing to do: no peer resumes."""

    def on_end(self, attempt: Attempt, outcome: Outcome, now: float) -> None:
        """The end of a trial."""
        del now
        known = self.history.get(attempt.trial, [])
        self.running.discard(attempt.trial)
        self.engine.tell(attempt.trial, outcome.kind, smoothed(known, self.problem.smooth) if known else None)


class OptunaEngine:
    """`study.ask`, `trial.report`, `trial.should_prune`, `study.tell`, as in Optuna's documentation."""

    def __init__(
        self, problem: Problem, sampler: optuna.samplers.BaseSampler, pruner: optuna.pruners.BasePruner
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        # Hyperband draws a trial's bracket from the study's name.
        self._study = optuna.create_study(study_name="contest", sampler=sampler, pruner=pruner, direction="maximize")
        self._distributions = {path: to_distribution(domain) for path, domain in problem.domains.items()}
        self._domains = problem.domains
        self._trials: dict[int, optuna.Trial] = {}

    def ask(self, number: int) -> FlatConfig:
        """A trial of the study."""
        trial = self._trials[number] = self._study.ask(self._distributions)
        return {path: decode(self._domains[path], value) for path, value in trial.params.items()}

    def goes_on(self, number: int, step: int, value: float | None) -> bool:
        """Whether the study's pruner lets it go on."""
        trial = self._trials[number]
        trial.report(math.nan if value is None else value, step)
        return not trial.should_prune()

    def tell(self, number: int, kind: EndKind, value: float | None) -> None:
        """Complete, pruned or failed."""
        state = {
            EndKind.FINISHED: optuna.trial.TrialState.COMPLETE,
            EndKind.STOPPED: optuna.trial.TrialState.PRUNED,
        }.get(kind, optuna.trial.TrialState.FAIL)
        complete = state is optuna.trial.TrialState.COMPLETE
        if complete and value is None:
            complete, state = False, optuna.trial.TrialState.FAIL
        self._study.tell(self._trials[number], value if complete else None, state=state)


def optuna_peer(problem: Problem, seed: int, *, trials: int, parallel: int, sampler: str, pruner: str) -> Peer:
    """Optuna with a sampler (random | tpe) and a pruner (none | hyperband), both with their own defaults."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samplers = {"random": optuna.samplers.RandomSampler, "tpe": optuna.samplers.TPESampler}
        chosen = samplers[sampler](seed=seed)
    judge = optuna.pruners.NopPruner()
    if pruner == "hyperband":
        judge = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=problem.steps)
    engine = OptunaEngine(problem, chosen, judge)
    return Peer(engine=engine, problem=problem, trials=trials, parallel=parallel)
