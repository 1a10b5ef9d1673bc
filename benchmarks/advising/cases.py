"""Mediocre recorded trials, what the rules would change in them, and what chance would."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from curve_bank.bank import OBJECTIVE, Run, domains, load
from curve_bank.design import TASKS, Value

from autotune.search.advice import RULES, Case, changed
from autotune.search.types import Point
from autotune.spec.domains import draw
from autotune.spec.types import Direction
from autotune.spec.values import FlatConfig, JsonValue
from trainer.config import compose, flatten

HALVES: Mapping[str, int] = {"tuning": 0, "held-out": 1}
"""Half of the bank -> the parity of its configurations' numbers. Rules are chosen on the first alone."""
DRAWS = 2
"""Random changes of each trial."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """A configuration to try after a trial.

    Attributes:
        run: The trial.
        by: The rule that advises it, or ``random-1``...
        overrides: Everything that differs from the shipped configuration.
    """

    run: Run
    by: str
    overrides: Mapping[str, Value]


@cache
def shipped(task: str) -> FlatConfig:
    """The complete configuration of a task."""
    return flatten(compose("config", dict(TASKS[task].overrides)))


def case_of(run: Run) -> Case:
    """A recorded run as the rules see a trial."""
    return Case(
        config={**shipped(run.task), **run.params},
        curve=[Point(step=step, time=0.0, metrics=metrics) for step, metrics in run.points],
        metric=OBJECTIVE,
        direction=Direction.MAXIMIZE,
        total_steps=TASKS[run.task].steps,
    )


def mediocre(half: str, task: str) -> list[Run]:
    """The trials of half a bank that ended neither in its best nor in its worst quarter; one seed of each."""
    runs = [run for run in load(task) if run.number % 2 == HALVES[half] and run.seed == 0 and run.final is not None]
    runs.sort(key=lambda run: (run.final, run.number))
    quarter = len(runs) // 4
    return sorted(runs[quarter:-quarter], key=lambda run: run.number)


def advised(run: Run, *, rules: Sequence[str] = tuple(RULES), anywhere: bool = False) -> Iterator[Proposal]:
    """What each rule would try, the most urgent first: within the bank's space, or with changes of any parameter."""
    case = case_of(run)
    for rule in rules:
        advice = RULES[rule](case)
        if advice is None:
            continue
        values = changed(advice, run.params, domains())
        beyond = {c.path: c.after for c in advice.changes if c.path not in run.params} if anywhere else {}
        if values is not None or beyond:
            yield Proposal(run=run, by=rule, overrides=_overrides(run, {**(values or run.params), **beyond}))


def drawn(run: Run, count: int, draws: int = DRAWS) -> Iterator[Proposal]:
    """What chance would try: as many searched parameters as the advice changes, each with a random value."""
    space, rng = domains(), random.Random(f"{run.name}-{count}")
    for number in range(draws):
        values: dict[str, JsonValue] = dict(run.params)
        for path in rng.sample(list(space), count):
            value = draw(space[path], rng)
            while value == values[path]:
                value = draw(space[path], rng)
            values[path] = float(f"{value:.6g}") if isinstance(value, float) else value
        yield Proposal(run=run, by=f"random-{number + 1}", overrides=_overrides(run, values))


def changes(proposal: Proposal) -> int:
    """How many parameters a proposal changes."""
    before = _overrides(proposal.run, proposal.run.params)
    return sum(before.get(path) != value for path, value in proposal.overrides.items())


def _overrides(run: Run, values: FlatConfig) -> dict[str, Value]:
    task = TASKS[run.task]
    found = {**task.overrides, **values, "trainer.seed": run.seed, "trainer.total_steps": task.steps}
    return {path: value for path, value in found.items() if value is not None}  # type: ignore[misc]
