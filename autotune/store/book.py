"""The search core's book in SQL: one fenced transaction for each thing that the coordinator decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, insert, select

from autotune.search.book import History
from autotune.search.types import Event, Point, Trial
from autotune.store import clean, hot, rows
from autotune.store import models as tables
from autotune.store.database import Store
from autotune.store.leases import check_lease
from autotune.store.patience import Patience
from autotune.store.studies import event_values
from autotune.store.values import Lease
from autotune.store.writing import Known, save_attempt, save_points, save_step


class SqlBook:
    """Keeps the truth of one study for the driver that holds the job's lease.

    Args:
        study_id: ``Study.id``.
        lease: The driver's lease; every save is refused once another driver has taken the job.
        stage: The stage's place within the job, from 0.
        patience: Waits for a database that does not answer; without it that is an error.
    """

    def __init__(
        self, store: Store, study_id: int, lease: Lease, stage: int = 0, patience: Patience | None = None
    ) -> None:
        self._store = store
        self._stage = stage
        self._study = study_id
        self._lease = lease
        self._known: dict[int, Known] = {}
        self._patience = patience

    def load(self) -> History:
        """Reads all trials, by number, and their curves in step order."""
        return self._load() if self._patience is None else self._patience(self._load)

    def _load(self) -> History:
        with self._store.read() as work:
            own = select(tables.trials).where(tables.trials.c.study == self._study).order_by(tables.trials.c.number)
            stored = work.connection.execute(own).all()
            statement = (
                select(tables.trials.c.number, tables.points.c.step, tables.points.c.time, tables.points.c.metrics)
                .join(tables.trials, tables.trials.c.id == tables.points.c.trial)
                .where(tables.trials.c.study == self._study)
                .order_by(tables.points.c.trial, tables.points.c.step)
            )
            curves: dict[int, list[Point]] = {row.number: [] for row in stored}
            for row in work.connection.execute(statement):
                curves[row.number].append(rows.read_point(row))
        return History(trials=[rows.read_trial(row) for row in stored], curves=curves)

    def save(self, trial: Trial, points: Sequence[Point] = (), events: Sequence[Event] = ()) -> None:
        """Writes a trial as it is now, new points of its curve and events, in one transaction.

        Raises:
            LeaseLostError: If another driver holds the job by now; nothing is written.
        """
        if self._patience is None:
            self._save(trial, points, events)
            return
        again = False

        def save() -> None:
            nonlocal again
            # The last time may have been committed without our hearing of it.
            first, again = not again, True
            self._save(trial, points, events, again=not first)

        self._patience(save)

    def _save(self, trial: Trial, points: Sequence[Point], events: Sequence[Event], *, again: bool = False) -> None:
        with self._store.begin() as work:
            connection = work.connection
            # Steps of a running trial are made durable by its next change of state, which is an event.
            check_lease(connection, self._lease, durable=bool(events))
            at = events[0].at if events else None
            if again:
                events = [event for event in events if not self._is_written(connection, event)]
            known = self._recall(connection, trial.number)
            metrics = dict(known.metrics) if known else {}
            cleaned = [clean.numbers(point.metrics) for point in points]
            for values in cleaned:
                metrics.update(values)
            step = None if known is None or events or len(points) != 1 else replace(known, metrics=metrics)
            if step is not None and save_step(connection, trial, step, points[0], cleaned[0]):
                known = step
            else:
                known = self._save_trial(connection, trial, known, metrics)
                save_attempt(connection, trial, known, at)
                save_points(connection, known.id, points, cleaned)
            if events:
                written = [event_values(self._lease.job, event, self._stage) for event in events]
                connection.execute(insert(tables.events), written)
        # Only what was committed may be remembered.
        self._known[trial.number] = known

    def _is_written(self, connection: Connection, event: Event) -> bool:
        of, columns = event_values(self._lease.job, event, self._stage), tables.events.c
        same = [columns[name] == of[name] for name in ("job", "stage", "at", "kind", "text")]
        return connection.execute(select(columns.id).where(*same).limit(1)).first() is not None

    def _recall(self, connection: Connection, number: int) -> Known | None:
        known = self._known.get(number)
        if known is not None:
            return known
        statement = select(tables.trials).where(tables.trials.c.study == self._study, tables.trials.c.number == number)
        row = connection.execute(statement).one_or_none()
        if row is None:
            return None
        return Known(id=row.id, source=row.source, params=row.params, config=row.config, metrics=row.metrics)

    def _save_trial(
        self, connection: Connection, trial: Trial, known: Known | None, metrics: dict[str, float | None]
    ) -> Known:
        values = rows.moving_values(trial, metrics)
        if known is None:
            values |= rows.fixed_values(trial)
            statement = (
                insert(tables.trials)
                .values(study=self._study, number=trial.number, **values)
                .returning(tables.trials.c.id)
            )
            identifier: int = connection.execute(statement).scalar_one()
            return Known(id=identifier, source=trial.source, params=trial.params, config=trial.config, metrics=metrics)
        if not known.fits(trial):
            values |= rows.fixed_values(trial)
        connection.execute(hot.update_trial(frozenset(values)), {**values, hot.KEY: known.id})
        return replace(known, source=trial.source, params=trial.params, config=trial.config, metrics=metrics)
