"""Advice on finished trials as the next trials, within a share of the budget; and how often it helped.

The advisor keeps nothing: what it proposes follows from the trials and their curves, so a driver that takes over goes
on where the last one was. A trial that comes from advice says so in its source, ``advice:kl_too_high:12``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from autotune.search.advice import Advice, Case, advise, changed
from autotune.search.finalists import is_finalist
from autotune.search.pareto import dominates
from autotune.search.ranking import answer, is_answer, ranked
from autotune.search.types import Event, Point, Trial
from autotune.spec.configs import start_params
from autotune.spec.domains import contains
from autotune.spec.types import Objective, Space, Start
from autotune.spec.values import FlatConfig, JsonValue
from autotune.states import TRIAL_ENDS, TrialState

CHANCES = 3
"""A rule whose first trials all did no better is not followed any more in this study."""
_LABEL = re.compile(r"advice:(\w+):(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Advised:
    """A trial that comes from advice.

    Attributes:
        trial: Its number.
        rule: The rule.
        parent: The trial in whose curves the rule found something.
        better: Whether it did better than that one; ``None`` until it has ended.
    """

    trial: int
    rule: str
    parent: int
    better: bool | None


def origin(source: str) -> tuple[str, int] | None:
    """Rule and trial that a trial's source names; ``None`` for any other source."""
    found = _LABEL.fullmatch(source)
    return (found[1], int(found[2])) if found else None


def advised_trials(trials: Iterable[Trial], objective: Objective) -> list[Advised]:
    """The trials that come from advice, in their order, each with what became of it.

    One did better when it may be the answer and beats the trial that it comes from, or that one may not be the answer.
    An end that no configuration is to blame for decides nothing.
    """
    known = {trial.number: trial for trial in trials}
    found = []
    for trial in known.values():
        named = origin(trial.source)
        if named is None:
            continue
        rule, parent = named
        better = _better(trial, known.get(parent), objective)
        found.append(Advised(trial=trial.number, rule=rule, parent=parent, better=better))
    return found


def outcome_event(trial: Trial, trials: Mapping[int, Trial], objective: Objective, now: float) -> list[Event]:
    """What is recorded when a trial that comes from advice has ended; nothing for any other trial."""
    others = {**trials, trial.number: trial}
    one = next((one for one in advised_trials([*others.values()], objective) if one.trial == trial.number), None)
    if one is None or one.better is None:
        return []
    values = [_shown(others[number].value) if number in others else "nothing" for number in (one.parent, trial.number)]
    verdict = "helped" if one.better else "did not help"
    text = f"advice {one.rule} {verdict}: trial {one.parent} came to {values[0]}, trial {trial.number} to {values[1]}"
    data: dict[str, JsonValue] = {"rule": one.rule, "parent": one.parent, "better": one.better}
    return [Event(at=now, kind="trial.advice", text=text, trial=trial.number, data=data)]


class Advisor:
    """Turns advice on completed trials into starts.

    Args:
        space: Its domains bound the changes, its ``advisor`` their share.
        base: The complete configuration without the searched parameters' values, flat.
        total_steps: Training steps of a full trial.
        allowed: Whether the configuration with these parameters meets every ``require`` condition.
    """

    def __init__(self, space: Space, base: FlatConfig, total_steps: int, allowed: Callable[[FlatConfig], bool]) -> None:
        self._space = space
        self._base = base
        self._total_steps = total_steps
        self._allowed = allowed
        self._domains = {path: parameter.domain for path, parameter in space.search.items()}
        self._found: dict[int, tuple[Advice, ...]] = {}

    def next(self, trials: Iterable[Trial], curves: Mapping[int, Sequence[Point]]) -> Start | None:
        """The next trial that advice suggests: of the best trial that has some, the most urgent.

        ``None`` when the space wants no advice, its share is used, or nothing new follows from it.
        """
        known = list(trials)
        spec, objective = self._space.advisor, self._space.objective
        given = advised_trials(known, objective)
        if spec is None or len(given) + 1 > spec.share * (len(known) + 1):
            return None
        sources, tried = {trial.source for trial in known}, [dict(trial.params) for trial in known]
        weak = _without_success(given)
        for trial in self._worth_advice(known):
            for advice in self._advice(trial, curves.get(trial.number, ())):
                label = f"advice:{advice.rule}:{trial.number}"
                params = None if advice.rule in weak or label in sources else self._params(advice, trial)
                if params is not None and params not in tried:
                    return Start(label=label, values=params)
        return None

    def _worth_advice(self, trials: Sequence[Trial]) -> list[Trial]:
        """The completed trials, best first; then those whose constraints do not hold, as advice may mend that."""
        best = ranked(trials, self._space.objective)
        done = [trial for trial in trials if trial.state is TrialState.COMPLETED and not is_finalist(trial)]
        return [*best, *(trial for trial in done if not trial.feasible)]

    def _advice(self, trial: Trial, curve: Sequence[Point]) -> tuple[Advice, ...]:
        """A completed trial's curve changes no more, so it is looked at once."""
        if trial.number not in self._found:
            objective = self._space.objective
            case = Case(
                config=trial.config,
                curve=curve,
                metric=objective.metric,
                direction=objective.direction,
                total_steps=self._total_steps,
            )
            self._found[trial.number] = advise(case)
        return self._found[trial.number]

    def _params(self, advice: Advice, trial: Trial) -> FlatConfig | None:
        """The trial's parameters with the change, completed; ``None`` where the space does not allow them."""
        values = changed(advice, trial.params, self._domains)
        if values is None:
            return None
        params = start_params(self._space, self._base, Start(label="", values=values))
        inside = all(contains(self._domains[path], value) for path, value in params.items())
        return params if inside and self._allowed(params) else None


def _better(trial: Trial, parent: Trial | None, objective: Objective) -> bool | None:
    if trial.state not in TRIAL_ENDS or trial.state in (TrialState.FAILED, TrialState.CANCELLED):
        return None
    if not is_answer(trial):
        return False
    if parent is None or not is_answer(parent):
        return True
    mine, theirs = answer(objective, trial), answer(objective, parent)
    return mine is not None and (theirs is None or dominates(mine, theirs))


def _without_success(given: Sequence[Advised]) -> set[str]:
    ended: dict[str, list[bool]] = {}
    for one in given:
        if one.better is not None:
            ended.setdefault(one.rule, []).append(one.better)
    return {rule for rule, found in ended.items() if len(found) >= CHANCES and not any(found)}


def _shown(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.4g}"
