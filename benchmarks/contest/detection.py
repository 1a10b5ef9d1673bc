"""Rules on one trial's curves as detectors of a labelled event: when each fires, and how often it is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from curve_bank.bank import OBJECTIVE, SMOOTH, Run
from curve_bank.design import TASKS

from autotune.search.curves import Curve
from autotune.search.pruners import Pruner, Sight
from autotune.search.types import Point, Trial
from autotune.spec.types import Objective
from autotune.states import TrialState


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """How a detector did.

    Attributes:
        hits: Labelled runs in which it fired.
        misses: Labelled runs in which it did not.
        alarms: Other runs in which it fired.
        quiet: Other runs in which it did not.
        saved: Part of the labelled runs' steps that came after it had fired.
    """

    hits: int
    misses: int
    alarms: int
    quiet: int
    saved: float

    @property
    def precision(self) -> float:
        """Part of the runs in which it fired that have the label; 0 when it never fired."""
        return self.hits / (self.hits + self.alarms) if self.hits + self.alarms else 0.0

    @property
    def recall(self) -> float:
        """Part of the labelled runs in which it fired."""
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else 0.0

    @property
    def false_positive_rate(self) -> float:
        """Part of the other runs in which it fired."""
        return self.alarms / (self.alarms + self.quiet) if self.alarms + self.quiet else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def fires_at(pruner: Pruner, run: Run) -> int | None:
    """The step at which a rule first has a reason to stop a recorded run, shown to it step by step, on its own."""
    curve = Curve()
    for step, metrics in run.points:
        curve = curve.with_point(Point(step=step, time=float(step), metrics=metrics))
        trial = Trial(
            number=0,
            state=TrialState.RUNNING,
            source="sampler",
            params=run.params,
            config=run.params,
            created_at=0.0,
            last_step=step,
        )
        sight = Sight(
            trial=trial,
            step=step,
            curve=curve,
            peers={},
            objective=Objective(metric=OBJECTIVE, smooth=SMOOTH),
            total_steps=TASKS[run.task].steps,
        )
        if step and pruner.judge(sight) is not None:
            return step
    return None


def score(pruner: Pruner, runs: Sequence[Run]) -> Score:
    """Show a rule every run and count, by the runs' labels."""
    fired = {run.name: fires_at(pruner, run) for run in runs}
    labelled = [run for run in runs if run.over_optimized]
    others = [run for run in runs if not run.over_optimized]
    whole = {run.name: TASKS[run.task].steps for run in labelled}
    after = sum(steps - (fired[name] or steps) for name, steps in whole.items())
    hits = sum(fired[run.name] is not None for run in labelled)
    alarms = sum(fired[run.name] is not None for run in others)
    return Score(
        hits=hits,
        misses=len(labelled) - hits,
        alarms=alarms,
        quiet=len(others) - alarms,
        saved=after / sum(whole.values()) if labelled else 0.0,
    )
