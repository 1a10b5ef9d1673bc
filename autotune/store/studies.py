"""Studies: one for each stage of a job, with what it reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, insert, select, update

from autotune.search.types import Event
from autotune.spec.values import JsonValue
from autotune.store import clean
from autotune.store.leases import LeaseRepository, check_lease
from autotune.store.models import events, studies
from autotune.store.values import Lease, Study


class StudyRepository(LeaseRepository):
    """Studies inside one transaction."""

    def add_studies(self, job: str, stages: Sequence[str]) -> tuple[Study, ...]:
        """Adds the studies of a new job: one for each stage, or one without a name for a job that has none.

        The name of a study is also that of its Optuna study: the job's id, and behind a slash the stage's name.
        """
        for stage, title in enumerate(stages or [""]):
            name = f"{job}/{title}" if title else job
            self._connection.execute(insert(studies).values(job=job, stage=stage, name=name, title=title))
        return self.studies(job)

    def studies(self, job: str) -> tuple[Study, ...]:
        """The studies of a job in the order of its stages."""
        found = self._connection.execute(select(studies).where(studies.c.job == job).order_by(studies.c.stage))
        return tuple(_study(row) for row in found)

    def begin_study(self, study: Study, now: float, lease: Lease) -> Study:
        """Notes that a stage begins, or goes on after it had ended.

        Raises:
            LeaseLostError: If ``lease`` no longer counts.
        """
        check_lease(self._connection, lease)
        started = now if study.started_at is None else study.started_at
        values = {"started_at": started, "ended_at": None, "verdict": None}
        self._connection.execute(update(studies).where(studies.c.id == study.id).values(**values))
        if study.title and study.started_at is None:
            event = Event(at=now, kind="stage.begin", text=f"stage {study.title} begins", data={"stage": study.title})
            self.record(study.job, event, stage=study.stage)
        return self.studies(study.job)[study.stage]

    def end_study(self, study: Study, now: float, verdict: Mapping[str, JsonValue], text: str, lease: Lease) -> None:
        """Keeps what a stage has reached.

        Args:
            study: The stage's study.
            now: Epoch seconds.
            verdict: What it reached, as plain JSON.
            text: The same in one sentence.
            lease: The driver's lease.

        Raises:
            LeaseLostError: If ``lease`` no longer counts.
        """
        check_lease(self._connection, lease)
        values = {"ended_at": now, "verdict": clean.plain(verdict)}
        self._connection.execute(update(studies).where(studies.c.id == study.id).values(**values))
        if study.title:
            data = {"stage": study.title, **verdict}
            self.record(study.job, Event(at=now, kind="stage.end", text=text, data=data), stage=study.stage)

    def renew_study(self, study: Study) -> Study:
        """Gives a study that is not at work the name of the next version of its space."""
        values = {"name": f"{study.base_name}@{study.version + 1}", "verdict": None, "ended_at": None}
        self._connection.execute(update(studies).where(studies.c.id == study.id).values(**values))
        return self.studies(study.job)[study.stage]

    def record(self, job: str, event: Event, stage: int = 0) -> int:
        """Writes an event about a job or one of its stages; returns the event's id."""
        statement = insert(events).values(**event_values(job, event, stage)).returning(events.c.id)
        number: int = self._connection.execute(statement).scalar_one()
        return number


def event_values(job: str, event: Event, stage: int = 0) -> dict[str, object]:
    """An event as a row of its table."""
    return {
        "job": job,
        "stage": stage,
        "trial": event.trial,
        "at": event.at,
        "kind": event.kind,
        "text": clean.text(event.text),
        "data": clean.plain(event.data),
    }


def _study(row: Row[Any]) -> Study:
    return Study(
        id=row.id,
        job=row.job,
        stage=row.stage,
        name=row.name,
        title=row.title,
        started_at=row.started_at,
        ended_at=row.ended_at,
        verdict=row.verdict,
    )
