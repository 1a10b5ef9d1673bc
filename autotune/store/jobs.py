"""Jobs: adding, finding, and changing their state along the one table of transitions."""

from __future__ import annotations

import base64
import binascii
import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Row, and_, func, insert, not_, select, text, tuple_, update

from autotune.errors import ConflictError, NotFoundError, UnknownCursorError, UsageError
from autotune.search.types import Event
from autotune.states import JOB_ENDS, JobState, check_job_transition
from autotune.store import clean
from autotune.store.leases import check_lease, free
from autotune.store.models import events, jobs
from autotune.store.studies import StudyRepository
from autotune.store.values import Job, JobError, JobPage, Lease, NewJob

_WISHES = {"cancel": JobState.CANCELLED, "pause": JobState.PAUSED, "stop": JobState.STOPPING}
"""What a driver can be asked for, and the state that the job goes to."""

_ADD_LOCK = 0x61646421  # serialises submissions on PostgreSQL; SQLite has one writer anyway


class JobRepository(StudyRepository):
    """Jobs inside one transaction."""

    def add(self, new: NewJob, now: float) -> Job:
        """Stores a new job as ``queued`` under the id ``{name}-{n}``, with the studies of its stages.

        A job that was added with the same idempotency key and body before is returned instead.

        Raises:
            ConflictError: If the idempotency key was used with another body.
        """
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADD_LOCK})
        if new.idempotency_key is not None:
            earlier = self._connection.execute(
                select(jobs).where(jobs.c.idempotency_key == new.idempotency_key)
            ).one_or_none()
            if earlier is not None:
                return _same(earlier, new)
        last = select(func.max(jobs.c.sequence)).where(jobs.c.name == new.name)
        sequence = (self._connection.execute(last).scalar() or 0) + 1
        job = f"{new.name}-{sequence}"
        self._connection.execute(
            insert(jobs).values(
                id=job,
                name=new.name,
                sequence=sequence,
                state=JobState.QUEUED,
                priority=new.priority,
                owner=clean.text(new.owner),
                team=clean.text(new.team),
                document=clean.plain(new.document),
                source=clean.text(new.source),
                file=clean.text(new.file),
                space_hash=new.space_hash,
                idempotency_key=new.idempotency_key,
                body_hash=new.body_hash,
                created_at=now,
                error_message="",
                error_hint="",
                directory="",
                lease_token=0,
            )
        )
        self.add_studies(job, new.stages)
        self.record(job, Event(at=now, kind="job.state", text="submitted", data={"to": str(JobState.QUEUED)}))
        return self.get(job)

    def get(self, job: str) -> Job:
        """One job.

        Raises:
            NotFoundError: If there is none with this id; the message names the nearest ones.
        """
        row = self._connection.execute(select(jobs).where(jobs.c.id == job)).one_or_none()
        if row is None:
            raise self._unknown(job)
        return _job(row)

    def list(
        self, *, states: Collection[JobState] = (), limit: int = 50, after: str | None = None, name: str | None = None
    ) -> JobPage:
        """Jobs, newest first.

        Args:
            states: Only jobs in one of these; empty = all.
            limit: At most this many, at least 1.
            after: The cursor ``next`` of the page before.
            name: Only jobs of this name.

        Raises:
            UnknownCursorError: If the cursor is none of ours.
            UsageError: If the limit is below 1.
        """
        if limit < 1:
            raise UsageError(f"limit: got {limit}, allowed are whole numbers from 1.")
        statement = select(jobs).order_by(jobs.c.created_at.desc(), jobs.c.id.desc()).limit(limit + 1)
        if states:
            statement = statement.where(jobs.c.state.in_([str(state) for state in states]))
        if name is not None:
            statement = statement.where(jobs.c.name == name)
        if after is not None:
            statement = statement.where(tuple_(jobs.c.created_at, jobs.c.id) < tuple_(*_read_cursor(after)))
        found = [_job(row) for row in self._connection.execute(statement)]
        more = len(found) > limit
        return JobPage(items=found[:limit], next=_cursor(found[limit - 1]) if more else None)

    def active_with_name(self, name: str) -> Job | None:
        """The newest job of this name that has not ended."""
        statement = (
            select(jobs)
            .where(jobs.c.name == name, jobs.c.state.not_in([str(state) for state in JOB_ENDS]))
            .order_by(jobs.c.sequence.desc())
            .limit(1)
        )
        row = self._connection.execute(statement).one_or_none()
        return None if row is None else _job(row)

    def next_queued(self, now: float) -> Job | None:
        """The queued job that is due: highest priority, then oldest, held by nobody."""
        statement = (
            select(jobs)
            .where(jobs.c.state == JobState.QUEUED, free(now))
            .order_by(jobs.c.priority.desc(), jobs.c.created_at, jobs.c.id)
            .limit(1)
        )
        row = self._connection.execute(statement).one_or_none()
        return None if row is None else _job(row)

    def driven(self) -> tuple[Job, ...]:
        """Jobs that some driver holds a lease on, also one that has expired and that nobody took since."""
        statement = select(jobs).where(jobs.c.lease_owner.is_not(None)).order_by(jobs.c.created_at)
        return tuple(_job(row) for row in self._connection.execute(statement))

    def abandoned(self, now: float) -> tuple[Job, ...]:
        """Jobs that should have a driver and have none: begun, not ended, and leased by nobody at ``now``.

        A paused job that its driver gave back is at rest.
        """
        begun = [str(state) for state in JobState if state not in JOB_ENDS and state is not JobState.QUEUED]
        at_rest = and_(jobs.c.state == JobState.PAUSED, jobs.c.lease_owner.is_(None))
        statement = select(jobs).where(jobs.c.state.in_(begun), free(now), not_(at_rest)).order_by(jobs.c.created_at)
        return tuple(_job(row) for row in self._connection.execute(statement))

    def set_state(
        self,
        job: str,
        new: JobState,
        now: float,
        *,
        reason: str = "",
        error: JobError | None = None,
        lease: Lease | None = None,
    ) -> Job:
        """Changes a job's state and records the event in the same transaction.

        Args:
            job: The job's id.
            new: The state to go to.
            now: When, epoch seconds.
            reason: Why, in a few words; part of the event.
            error: What went wrong, for ``failed``.
            lease: The caller's lease; a driver always gives it.

        Raises:
            IllegalTransitionError: If the table of transitions does not allow it.
            LeaseLostError: If ``lease`` no longer counts.
            NotFoundError: If there is no such job.
        """
        if lease is not None:
            check_lease(self._connection, lease)
        old = self._locked(job)
        check_job_transition(job, old.state, new)
        ends = new in JOB_ENDS
        values: dict[str, object] = {"state": new, "ended_at": now if ends else None, "mirrored_at": None}
        if new is JobState.RUNNING and old.started_at is None:
            values["started_at"] = now
        if ends:
            values["requested"] = None
        values["error_kind"] = clean.text(error.kind) if error else None
        values["error_message"] = clean.text(error.message) if error else ""
        values["error_hint"] = clean.text(error.hint) if error else ""
        self._connection.execute(update(jobs).where(jobs.c.id == job).values(**values))
        said = reason or (error.message if error else "")
        sentence = f"{old.state} -> {new}" + (f": {said}" if said else "")
        data = {"from": str(old.state), "to": str(new), "reason": said}
        self.record(job, Event(at=now, kind="job.state", text=sentence, data=data))
        return self.get(job)

    def mark_mirrored(self, job: str, now: float | None) -> None:
        """Takes note that Optuna's study and MLflow have everything of a job that has ended; ``None``: not yet."""
        self._connection.execute(update(jobs).where(jobs.c.id == job).values(mirrored_at=now))

    def behind(self, now: float, limit: int = 20) -> Sequence[str]:
        """Jobs that have ended, that nobody holds, and whose mirrors may lack something; the newest first."""
        ends = [str(state) for state in JOB_ENDS]
        mine = select(jobs.c.id).where(jobs.c.mirrored_at.is_(None), jobs.c.state.in_(ends), free(now))
        run = mine.where(jobs.c.started_at.is_not(None)).order_by(jobs.c.ended_at.desc()).limit(limit)
        return [row.id for row in self._connection.execute(run)]

    def waits_for(self, job: str) -> str:
        """What a queued job waits for, as was said last; empty where that is only its turn."""
        said = select(events.c.kind, events.c.text, events.c.data).where(
            events.c.job == job, events.c.kind.in_(("job.state", "job.waits"))
        )
        last = self._connection.execute(said.order_by(events.c.id.desc()).limit(1)).first()
        if last is None:
            return ""
        text = str(last.text if last.kind == "job.waits" else last.data.get("reason", ""))
        return text.removeprefix("waits: ") if text.startswith("waits: ") else ""

    def request(self, job: str, what: str | None, now: float) -> Job:
        """Leaves a wish for the job's driver, which polls ``requested``; ``None`` takes it back.

        Raises:
            IllegalTransitionError: If the job has ended.
            UsageError: If the wish is unknown.
        """
        if what is not None and what not in _WISHES:
            raise UsageError(f"a driver cannot be asked for {what!r}; allowed: {', '.join(_WISHES)}.")
        old = self._locked(job)
        if what is not None and not (what == "stop" and old.state in (JobState.QUEUED, JobState.STOPPING)):
            check_job_transition(job, old.state, _WISHES[what])
        if old.requested != what:
            self._connection.execute(update(jobs).where(jobs.c.id == job).values(requested=what))
            self.record(job, Event(at=now, kind="job.request", text=what or "withdrawn", data={"requested": what}))
        return self.get(job)

    def edit(
        self,
        job: str,
        text: str,
        now: float,
        *,
        document: Mapping[str, object] | None = None,
        priority: int | None = None,
    ) -> Job:
        """Changes what a job was submitted with and records it; ``None`` leaves a value as it was.

        Args:
            job: The job's id.
            text: What changed, for the record.
            now: When, epoch seconds.
            document: The whole space, as plain JSON.
            priority: Its place in the queue.
        """
        self._locked(job)
        changes: dict[str, object] = {}
        if document is not None:
            changes["document"] = clean.plain(document)
        if priority is not None:
            changes["priority"] = priority
        self._connection.execute(update(jobs).where(jobs.c.id == job).values(**changes))
        self.record(job, Event(at=now, kind="job.edit", text=text, data={}))
        return self.get(job)

    def set_places(self, job: str, *, directory: str | None = None, mlflow_run: str | None = None) -> None:
        """Remembers where a job's files and its MLflow run are; ``None`` leaves a place as it was."""
        places = {"directory": directory, "mlflow_run": mlflow_run}
        values = {name: place for name, place in places.items() if place is not None}
        if values:
            self._connection.execute(update(jobs).where(jobs.c.id == job).values(**values))

    def _locked(self, job: str) -> Job:
        row = self._connection.execute(select(jobs).where(jobs.c.id == job).with_for_update()).one_or_none()
        if row is None:
            raise self._unknown(job)
        return _job(row)

    def _unknown(self, job: str) -> NotFoundError:
        recent = select(jobs.c.id).order_by(jobs.c.created_at.desc()).limit(1000)
        known = [str(name) for name in self._connection.execute(recent).scalars()]
        near = difflib.get_close_matches(job, known, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}?" if near else "List them with: autotune jobs"
        return NotFoundError(f"there is no job {job!r}.", hint=hint)


def _same(row: Row[Any], new: NewJob) -> Job:
    if row.body_hash != new.body_hash:
        raise ConflictError(
            f"the idempotency key {new.idempotency_key!r} was used for job {row.id!r} with another body.",
            hint="Send the same body again, or choose a new key for a new job.",
        )
    return _job(row)


def _job(row: Row[Any]) -> Job:
    failed = row.error_kind is not None
    return Job(
        id=row.id,
        name=row.name,
        sequence=row.sequence,
        state=JobState(row.state),
        requested=row.requested,
        priority=row.priority,
        owner=row.owner,
        team=row.team,
        document=row.document,
        source=row.source,
        file=row.file,
        space_hash=row.space_hash,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        error=JobError(kind=row.error_kind, message=row.error_message, hint=row.error_hint) if failed else None,
        directory=row.directory,
        mlflow_run=row.mlflow_run,
        lease_owner=row.lease_owner,
        lease_token=row.lease_token,
        lease_expires=row.lease_expires,
    )


def _cursor(job: Job) -> str:
    return base64.urlsafe_b64encode(f"{job.created_at!r} {job.id}".encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[float, str]:
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        created, job = raw.replace("\x00", "").split(" ", 1)
        return float(created), job
    except (ValueError, binascii.Error) as error:
        raise UnknownCursorError(
            f"the cursor {cursor!r} is none of ours.", hint="Pass on `next` of the page before, unchanged."
        ) from error
