"""The trials of a study as Optuna's samplers may learn from them, and the study that holds them.

Optuna copies every trial that enters a study, which at a thousand trials costs more than the sampler itself. Here the
converted trials are kept from one proposal to the next and shared by all the studies that live for one proposal each.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Container, Mapping, Sequence

import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import InMemoryStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, create_trial
from optuna.trial import TrialState as OptunaState

from autotune.search.distributions import encode, to_distribution
from autotune.search.objective import recent, series
from autotune.search.pareto import Vector
from autotune.search.pruners.base import condemned
from autotune.search.pruners.standing import vector
from autotune.search.types import Point, Trial
from autotune.spec.domains import contains
from autotune.spec.types import Space
from autotune.states import TrialState

ASKS = 64
"""Proposals that one study is asked for at most; the numbers of its history come after theirs."""
INFEASIBLE = "infeasible"
"""Name of the constraint that a configuration breaks which cannot work."""


class HistoryStorage(InMemoryStorage):
    """Holds the trials that are asked for in one study, over a history that is shared and never changed.

    Args:
        history: Trials with numbers from ``ASKS`` on.
    """

    def __init__(self, history: Sequence[FrozenTrial]) -> None:
        super().__init__()
        self._history = history

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[OptunaState] | None = None
    ) -> list[FrozenTrial]:
        """The asked trials and the history."""
        asked = super().get_all_trials(study_id, deepcopy, states)
        history = [trial for trial in self._history if states is None or trial.state in states]
        return [*asked, *(copy.deepcopy(history) if deepcopy else history)]


def open_study(space: Space, sampler: optuna.samplers.BaseSampler, history: Sequence[FrozenTrial]) -> optuna.Study:
    """A study for one proposal."""
    directions = [StudyDirection[objective.direction.name] for objective in space.objective.each]
    return optuna.create_study(storage=HistoryStorage(history), sampler=sampler, directions=directions)


class Past:
    """Converts trials; what has not changed since the last proposal is not converted again.

    Args:
        space: What is searched; trials that no longer fit into it are left out.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._distributions: dict[str, BaseDistribution] = {
            path: to_distribution(parameter.domain) for path, parameter in space.search.items()
        }
        self._kept: dict[int, tuple[Trial, tuple[object, ...], FrozenTrial]] = {}

    def as_it_went(self, trials: Sequence[Trial], curves: Mapping[int, Sequence[Point]]) -> list[FrozenTrial]:
        """Every trial as far as it came: completed ones with their value, pruned and paused ones with their curve.

        That is what TPE wants: it ranks those that were stopped by how far they came, then by their last value.
        """
        found: list[FrozenTrial] = []
        for trial in trials:
            state = _STATES.get(trial.state)
            if state is None or not self._fits(trial):
                continue
            curve = curves.get(trial.number, ()) if state is OptunaState.PRUNED else ()
            values = None if state is not OptunaState.COMPLETE or trial.value is None else [trial.value]
            found.append(self._frozen(trial, state, values, curve, self._constraints(trial)))
        return found

    def at_one_step(
        self, trials: Sequence[Trial], curves: Mapping[int, Sequence[Point]], enough: int
    ) -> list[FrozenTrial]:
        """All trials as if they had been measured at the same step, for samplers that learn from full trials only.

        The step is the latest that ``enough`` trials have reached, as in BOHB (Falkner et al. 2018, arXiv:1807.01774,
        section 3.2: the model is built on the largest budget with enough observations). Who was stopped before it
        counts as no better than the worst who reached it; a configuration that cannot work, or that a rule has
        condemned, counts as the worst and breaks a constraint. With several objectives each has its own worst.
        """
        objective = self._space.objective
        fits = [trial for trial in trials if trial.state in _STATES and self._fits(trial)]
        reported = [self._last(curves.get(trial.number, ())) for trial in fits]
        reached = sorted((step for step in reported if step > 0), reverse=True)
        # Those that broke before their first report must not keep the others from being compared.
        step = reached[min(enough, len(reached)) - 1] if reached else 1
        known: dict[int, Vector] = {}
        for trial in fits:
            values = None if condemned(trial) else vector(objective, curves.get(trial.number, ()), step)
            if values is not None and all(map(math.isfinite, values)):
                known[trial.number] = values
        worst = tuple(map(min, zip(*known.values(), strict=True)))
        for trial in fits:
            if worst and trial.number not in known and trial.state not in _WAITING:
                last = vector(objective, curves.get(trial.number, ()))
                known[trial.number] = (
                    worst if last is None or not all(map(math.isfinite, last)) else _least(worst, last)
                )
        broken = any(condemned(trial) for trial in fits)
        found: list[FrozenTrial] = []
        for trial in fits:
            own = known.get(trial.number)
            if own is None and trial.state not in _WAITING:
                continue
            state = OptunaState.RUNNING if own is None else OptunaState.COMPLETE
            turned = None if own is None else [one.sign * value for one, value in zip(objective.each, own, strict=True)]
            found.append(self._frozen(trial, state, turned, (), self._constraints(trial, broken=broken, all_of=True)))
        return found

    def _last(self, curve: Sequence[Point]) -> int:
        reported = recent(curve, self._space.objective.metric, 1)
        return reported[-1][0] if reported else 0

    def _fits(self, trial: Trial) -> bool:
        search = self._space.search
        return all(path in search and contains(search[path].domain, value) for path, value in trial.params.items())

    def _constraints(self, trial: Trial, *, broken: bool = False, all_of: bool = False) -> dict[str, float]:
        """The trial's violations; ``all_of`` names every constraint: some samplers need as many for each trial."""
        found = {name: value for name, value in trial.violations.items() if math.isfinite(value)}
        if all_of:
            found = {constraint.text: found.get(constraint.text, 0.0) for constraint in self._space.constraints}
        if condemned(trial) or broken or (self._space.constraints and not all_of):
            found[INFEASIBLE] = 1.0 if condemned(trial) else 0.0
        return found

    def _frozen(
        self,
        trial: Trial,
        state: OptunaState,
        values: Sequence[float] | None,
        curve: Sequence[Point],
        constraints: Mapping[str, float],
    ) -> FrozenTrial:
        key = (state, None if values is None else tuple(values), trial.attempt, len(curve), tuple(constraints.items()))
        kept = self._kept.get(trial.number)
        if kept is not None and kept[0].params is trial.params and kept[1] == key:
            return kept[2]
        params = {path: value for path, value in trial.params.items() if path in self._space.search}
        reported = series(curve, self._space.objective.metric)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            frozen = create_trial(
                state=state,
                values=values,
                params={path: encode(self._space.search[path].domain, value) for path, value in params.items()},
                distributions={path: self._distributions[path] for path in params},
                intermediate_values={step: value for step, value in reported if value is not None} or None,
                constraints=dict(constraints) or None,
            )
        frozen.number = ASKS + trial.number
        self._kept[trial.number] = (trial, key, frozen)
        return frozen


def _least(first: Vector, second: Vector) -> Vector:
    return tuple(map(min, first, second))


_WAITING = frozenset({TrialState.RUNNING, TrialState.QUEUED, TrialState.PAUSED})
_STATES: dict[TrialState, OptunaState] = {
    TrialState.COMPLETED: OptunaState.COMPLETE,
    TrialState.PRUNED: OptunaState.PRUNED,
    TrialState.PAUSED: OptunaState.PRUNED,
    TrialState.INFEASIBLE: OptunaState.PRUNED,
    TrialState.RUNNING: OptunaState.RUNNING,
    TrialState.QUEUED: OptunaState.RUNNING,
}
"""Failed and cancelled trials say nothing about their configuration."""
