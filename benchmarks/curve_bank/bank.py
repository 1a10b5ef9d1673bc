"""Reads the bank: each run with its parameters, its whole curves, its end, and whether it over-optimized."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

import pyarrow.parquet

from autotune.execution.replay import RecordedRun
from autotune.search.types import EndKind
from autotune.spec.types import Choice, Domain, FloatRange, IntRange
from curve_bank.design import SPACE, Value

DATA = Path(__file__).resolve().parent / "data"
RUNS_FILE, CURVES_FILE = "runs.parquet", "curves.parquet"
OBJECTIVE = "eval/reward"
SMOOTH = 5
"""Evaluations that are averaged: at the end they are the final objective."""
PEAK_LOSS = 0.1
"""Reward units below its best that a run's evaluation must have fallen to count as over-optimized."""

Metrics = Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One recorded run.

    Attributes:
        name: Task, configuration and seed.
        task: One of ``design.TASKS``.
        number: The configuration's number within its task.
        seed: ``trainer.seed``.
        params: The searched values.
        status: finished | failed.
        error_kind: Why it failed, as in `result.json`; empty when it did not.
        error_message: What it said then.
        points: The metrics of each step from 0 (the evaluation before training) on; ``None`` = not finite.
        seconds: Processor seconds of each step from 1 on, its evaluation included.
    """

    name: str
    task: str
    number: int
    seed: int
    params: Mapping[str, Value]
    status: str
    error_kind: str
    error_message: str
    points: Sequence[tuple[int, Metrics]]
    seconds: Sequence[float]

    def curve(self, metric: str) -> list[tuple[int, float]]:
        """The finite values of a metric by step."""
        found = ((step, metrics.get(metric)) for step, metrics in self.points)
        return [(step, value) for step, value in found if value is not None]

    @property
    def final(self) -> float | None:
        """The final objective: the mean of the last evaluations of a run of full length; ``None`` for any other."""
        evaluations = [value for _, value in self.curve(OBJECTIVE)][-SMOOTH:]
        return fmean(evaluations) if self.status == "finished" and len(evaluations) == SMOOTH else None

    @property
    def over_optimized(self) -> bool:
        """The label: what is evaluated has fallen for good while what is trained on has gone on rising.

        A rule over the whole curves, both smoothed by means of ``SMOOTH``: at the end the evaluation is at least
        ``PEAK_LOSS`` below its best, and the training reward is above what it was when the evaluation was best.
        """
        gold, paid = self._smooth(OBJECTIVE), self._smooth("reward/mean")
        if len(gold) < 2 * SMOOTH or len(paid) < SMOOTH:
            return False
        peak = max(range(len(gold)), key=lambda at: gold[at])
        fell = gold[peak] - gold[-1] >= PEAK_LOSS
        return fell and paid[-1] > paid[min(peak, len(paid) - 1)]

    def recorded(self) -> RecordedRun:
        """The run as the simulator replays it."""
        end = EndKind.FINISHED if self.status == "finished" else EndKind(self.error_kind)
        metrics = [metrics for step, metrics in self.points if step]
        steps = list(zip(self.seconds, metrics, strict=False))
        return RecordedRun(name=self.name, params=self.params, steps=steps, end=end, message=self.error_message)

    def _smooth(self, metric: str) -> list[float]:
        values = [value for _, value in self.curve(metric)]
        return [fmean(values[at : at + SMOOTH]) for at in range(len(values) - SMOOTH + 1)]


def domains() -> dict[str, Domain]:
    """The searched parameters of all tasks as a space file would have them."""
    found: dict[str, Domain] = {}
    for path, axis in SPACE.items():
        if axis.choices:
            found[path] = Choice(options=axis.choices)
        elif axis.whole:
            found[path] = IntRange(low=int(axis.low), high=int(axis.high))
        else:
            found[path] = FloatRange(low=axis.low, high=axis.high, log=axis.log)
    return found


@cache
def load(task: str | None = None, directory: Path = DATA) -> tuple[Run, ...]:
    """All runs of a task, or of all tasks, in the order in which they were planned."""
    curves: dict[str, list[tuple[int, Metrics]]] = {}
    seconds: dict[str, list[float]] = {}
    for row in pyarrow.parquet.read_table(directory / CURVES_FILE).to_pylist():
        name, step, spent = row.pop("run"), row.pop("step"), row.pop("cpu_s")
        present = {metric: value for metric, value in row.items() if value is not None}
        metrics = {metric: None if math.isnan(value) else value for metric, value in present.items()}
        curves.setdefault(name, []).append((step, metrics))
        if step:
            seconds.setdefault(name, []).append(spent)
    runs = []
    for row in pyarrow.parquet.read_table(directory / RUNS_FILE).to_pylist():
        params = {path: row.pop(path) for path in SPACE}
        row.pop("last_step")
        runs.append(Run(**row, params=params, points=curves.get(row["name"], []), seconds=seconds.get(row["name"], [])))
    return tuple(run for run in runs if task is None or run.task == task)
