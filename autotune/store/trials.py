"""The read side: trials with their last metrics, attempts, curves, events and sums."""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, literal, or_, select, update

from autotune.errors import NotFoundError, UsageError
from autotune.search.types import Metrics, Trial
from autotune.spec.values import JsonValue
from autotune.states import TrialState
from autotune.store import clean, rows
from autotune.store.curves import thin
from autotune.store.leftovers import cancel_running
from autotune.store.models import attempts, events, points, studies, trials
from autotune.store.values import AttemptRecord, Curve, EventRecord, Totals, TrialRecord

_Step = tuple[int, Metrics]
_HEAVY = ("params", "config", "metrics")


class TrialRepository:
    """Reads what the books have written, inside one transaction, and ends what they left running."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(
        self,
        job: str,
        stage: int = 0,
        *,
        after: int = -1,
        state: TrialState | None = None,
        limit: int | None = None,
        whole: bool = True,
    ) -> tuple[TrialRecord, ...]:
        """Trials of a stage by number, each with the last value of each metric.

        Args:
            job: The job's id.
            stage: The stage's index.
            after: Only trials with a greater number.
            state: Only trials in this state; ``None`` = all.
            limit: At most this many; ``None`` = all.
            whole: With the complete configuration, which is most of a row.
        """
        columns = trials.c if whole else _without("config")
        statement = _of(job, stage).add_columns(*columns).where(trials.c.number > after).order_by(trials.c.number)
        if state is not None:
            statement = statement.where(trials.c.state == str(state))
        found = self._connection.execute(statement.limit(limit))
        return tuple(TrialRecord(trial=rows.read_trial(row), metrics=row.metrics) for row in found)

    def cancel_running(self, job: str, now: float, why: str, unpaid: Callable[[int, Trial, float], float]) -> int:
        """Cancels what a job leaves running; see ``leftovers``."""
        return cancel_running(self._connection, job, now, why, unpaid)

    def answers(self, job: str, stage: int = 0) -> tuple[Trial, ...]:
        """The trials that decide a job's answer: completed ones, the default, and fresh runs.

        Without their parameters and their configuration, which are most of a row.
        """
        decides = or_(trials.c.state == str(TrialState.COMPLETED), trials.c.source != "sampler")
        statement = _of(job, stage).add_columns(*_without(*_HEAVY)).where(decides).order_by(trials.c.number)
        return tuple(rows.read_trial(row) for row in self._connection.execute(statement))

    def get(self, job: str, number: int, stage: int = 0) -> TrialRecord:
        """One trial.

        Raises:
            NotFoundError: If the job has no trial of this number; the hint says which it has.
        """
        statement = _of(job, stage).add_columns(*trials.c).where(trials.c.number == number)
        row = self._connection.execute(statement).one_or_none()
        if row is not None:
            return TrialRecord(trial=rows.read_trial(row), metrics=row.metrics)
        count = self._connection.execute(_of(job, stage).add_columns(func.count())).scalar_one()
        hint = f"It has the trials 0 to {count - 1}." if count else "It has no trials yet."
        raise NotFoundError(f"job {job!r} has no trial {number}.", hint=hint)

    def set_params(self, study: int, number: int, params: Mapping[str, JsonValue]) -> None:
        """Says what of a trial's configuration is searched now, after its study's space was changed."""
        own = (trials.c.study == study, trials.c.number == number)
        self._connection.execute(update(trials).where(*own).values(params=clean.plain(params)))

    def attempts(self, job: str, number: int, stage: int = 0) -> tuple[AttemptRecord, ...]:
        """The attempts of one trial in order."""
        statement = (
            _of(job, stage)
            .add_columns(*attempts.c)
            .join(attempts, attempts.c.trial == trials.c.id)
            .where(trials.c.number == number)
            .order_by(attempts.c.number)
        )
        return tuple(rows.read_attempt(row, number) for row in self._connection.execute(statement))

    def curves(
        self,
        job: str,
        *,
        metrics: Collection[str] = (),
        numbers: Collection[int] = (),
        max_points: int = 500,
        stage: int = 0,
    ) -> tuple[Curve, ...]:
        """Curves of trials that have any, by number.

        Args:
            job: The job's id.
            metrics: Only these; empty = all.
            numbers: Only these trials; empty = all.
            max_points: At most this many points of each trial: evenly spread, the ends of each curve included as
                far as they fit, rare curves (evaluations) thinned last. At least 2.
            stage: The stage's index.

        Raises:
            UsageError: If ``max_points`` is below 2.
        """
        if max_points < 2:
            raise UsageError(f"max_points: got {max_points}, allowed are whole numbers from 2.")
        statement = (
            _of(job, stage)
            .add_columns(trials.c.number, points.c.step, points.c.metrics)
            .join(points, points.c.trial == trials.c.id)
            .order_by(trials.c.number, points.c.step)
        )
        if numbers:
            statement = statement.where(trials.c.number.in_(builtins.list(numbers)))
        found: dict[int, builtins.list[_Step]] = defaultdict(builtins.list)
        for number, step, values in self._connection.execute(statement):
            found[number].append((step, values))
        curves = (_curve(number, curve, metrics, max_points) for number, curve in found.items())
        return tuple(curve for curve in curves if curve.steps)

    def events(self, job: str, after: int = 0, limit: int = 1000) -> tuple[EventRecord, ...]:
        """The job's events with an id above ``after``, oldest first, at most ``limit``."""
        statement = select(events).where(events.c.job == job, events.c.id > after).order_by(events.c.id).limit(limit)
        return tuple(rows.read_event(row) for row in self._connection.execute(statement))

    def totals(self, jobs: Collection[str]) -> Mapping[str, Totals]:
        """Number of trials by state and seconds spent, for each of the jobs, over all stages."""
        statement = (
            select(studies.c.job, trials.c.state, func.count().label("trials"), func.sum(trials.c.cost_s).label("cost"))
            .join(trials, trials.c.study == studies.c.id)
            .where(studies.c.job.in_(builtins.list(jobs)))
            .group_by(studies.c.job, trials.c.state)
        )
        states: dict[str, dict[str, int]] = {job: {} for job in jobs}
        cost: dict[str, float] = dict.fromkeys(jobs, 0.0)
        for row in self._connection.execute(statement):
            states[row.job][row.state] = row.trials
            cost[row.job] += row.cost
        return {job: Totals(states=states[job], cost_s=cost[job]) for job in jobs}

    def totals_of_stages(self, job: str) -> Mapping[int, Totals]:
        """The same for one job, for each of its stages by its place; a stage without trials is left out."""
        statement = (
            select(
                studies.c.stage, trials.c.state, func.count().label("trials"), func.sum(trials.c.cost_s).label("cost")
            )
            .join(trials, trials.c.study == studies.c.id)
            .where(studies.c.job == job)
            .group_by(studies.c.stage, trials.c.state)
        )
        states: dict[int, dict[str, int]] = defaultdict(dict)
        cost: dict[int, float] = defaultdict(float)
        for row in self._connection.execute(statement):
            states[row.stage][row.state] = row.trials
            cost[row.stage] += row.cost
        return {stage: Totals(states=states[stage], cost_s=cost[stage]) for stage in states}


def _without(*names: str) -> builtins.list[ColumnElement[Any]]:
    """A trial's columns, with nothing in those that are named."""
    return [literal(None).label(column.name) if column.name in names else column for column in trials.c]


def _of(job: str, stage: int) -> Select[*tuple[()]]:
    return select().select_from(trials).join(studies).where(studies.c.job == job, studies.c.stage == stage)


def _curve(number: int, curve: builtins.list[_Step], metrics: Collection[str], max_points: int) -> Curve:
    names = builtins.list(metrics) or sorted({name for _, values in curve for name in values})
    present = {name: [place for place, (_, values) in enumerate(curve) if name in values] for name in names}
    chosen = [curve[place] for place in thin(builtins.list(present.values()), max_points)]
    return Curve(
        trial=number,
        steps=[step for step, _ in chosen],
        metrics={name: [values.get(name) for _, values in chosen] for name in names},
    )
