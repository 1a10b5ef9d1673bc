"""The search core's book in SQL: one fenced transaction for each thing that the coordinator decides."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, insert, select, update

from autotune.search.book import History
from autotune.search.types import Event, Point, Trial
from autotune.store import clean, rows
from autotune.store import models as tables
from autotune.store.database import Store
from autotune.store.leases import check_lease
from autotune.store.studies import event_values
from autotune.store.values import Lease
from autotune.store.writing import Known, save_attempt, save_points


class SqlBook:
    """Keeps the truth of one study for the driver that holds the job's lease.

    Args:
        study_id: ``Study.id``.
        lease: The driver's lease; every save is refused once another driver has taken the job.
        stage: The stage's place within the job, from 0.
    """

    def __init__(self, store: Store, study_id: int, lease: Lease, stage: int = 0) -> None:
        self._store = store
        self._stage = stage
        self._study = study_id
        self._lease = lease
        self._known: dict[int, Known] = {}

    def load(self) -> History:
        """Reads all trials, by number, and their curves in step order."""
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
        with self._store.begin() as work:
            connection = work.connection
            check_lease(connection, self._lease)
            known = self._recall(connection, trial.number)
            metrics = dict(known.metrics) if known else {}
            cleaned = [clean.numbers(point.metrics) for point in points]
            for values in cleaned:
                metrics.update(values)
            known = self._save_trial(connection, trial, known, metrics)
            save_attempt(connection, trial, known, events[0].at if events else None)
            save_points(connection, known.id, points, cleaned)
            if events:
                written = [event_values(self._lease.job, event, self._stage) for event in events]
                connection.execute(insert(tables.events), written)
        # Only what was committed may be remembered.
        self._known[trial.number] = known

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
        if (known.source, known.params, known.config) != (trial.source, trial.params, trial.config):
            values |= rows.fixed_values(trial)
        connection.execute(update(tables.trials).where(tables.trials.c.id == known.id).values(**values))
        return Known(
            id=known.id,
            source=trial.source,
            params=trial.params,
            config=trial.config,
            metrics=metrics,
            attempt=known.attempt,
            spent_before=known.spent_before,
        )
