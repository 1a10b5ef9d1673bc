"""What a search is asked to solve: the recorded runs of one task as a function of the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from curve_bank.bank import OBJECTIVE, SMOOTH, Run, domains
from curve_bank.design import TASKS

from autotune.execution.replay import Replay
from autotune.spec.types import Domain

REACHED = 0.95
"""Part of the best known final objective that a search is to reach."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One task.

    Attributes:
        task: Its name.
        domains: The searched parameters.
        replay: Configuration -> recorded run.
        steps: Training steps of a full run.
        best: The best known final objective: the best mean over the seeds of one configuration.
        start: The objective before training.
        metric: The curve that is the objective.
        smooth: Evaluations that are averaged.
    """

    task: str
    domains: Mapping[str, Domain]
    replay: Replay
    steps: int
    best: float
    start: float
    metric: str = OBJECTIVE
    smooth: int = SMOOTH

    @property
    def target(self) -> float:
        """The final objective that counts as found."""
        return REACHED * self.best


def problem(task: str, runs: Sequence[Run], weights: Mapping[str, float] | None = None) -> Problem:
    """The recorded runs of a task as a problem.

    Every configuration plays its first seed only, so that the best is the same for everybody.
    """
    first = [run for run in runs if run.task == task and run.seed == 0]
    finals = [run.final for run in first if run.final is not None]
    space = domains()
    starts = [run.curve(OBJECTIVE)[0][1] for run in first if run.points]
    return Problem(
        task=task,
        domains=space,
        replay=Replay([run.recorded() for run in first], space, weights),
        steps=TASKS[task].steps,
        best=max(finals),
        start=fmean(starts),
    )


def smoothed(values: Sequence[float], smooth: int) -> float:
    """The mean of the last ``smooth`` values: what every contestant is told at each step."""
    return fmean(values[-smooth:])


def without(problem_: Problem, **changes: object) -> Problem:
    """The problem with some of its values changed."""
    return replace(problem_, **changes)
