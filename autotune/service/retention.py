"""Makes room: takes the bulk of old jobs away and keeps what they have found."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import delete, select

from autotune.errors import UsageError
from autotune.search.types import Event
from autotune.service.service import Service
from autotune.states import JOB_ENDS
from autotune.store.models import points, studies, trials
from autotune.store.values import Job

KINDS = ("checkpoints", "curves")
"""What may go: ``checkpoints`` of all trials but the best, and ``curves`` of all trials but the best, step by step."""
_PAGE = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Pruned:
    """What one old job has given back.

    Attributes:
        files: Number of checkpoints.
        size: Their size in bytes.
        points: Number of points of curves.
    """

    job: str
    files: int = 0
    size: int = 0
    points: int = 0


def prune(service: Service, older_s: float, what: str, *, really: bool) -> Iterator[Pruned]:
    """Prunes each job that ended more than ``older_s`` seconds ago; the best trial keeps everything.

    Trials, their values, reasons, parameters, costs, last metrics and events stay.

    Args:
        service: The service on the machine that holds the jobs' directories.
        older_s: Seconds since the job ended.
        what: One of ``KINDS``.
        really: Whether anything is taken away; otherwise it is only counted.

    Raises:
        UsageError: If ``what`` is unknown, or the age negative.
    """
    if what not in KINDS:
        raise UsageError(f"what: got {what!r}, allowed are {', '.join(KINDS)}.")
    if older_s < 0:
        raise UsageError(f"older: got {older_s:g} s, allowed are times from 0.")
    before = service.clock.now() - older_s
    for job in _ended(service, before):
        best = service.job(job.id).best_trial
        found = _checkpoints(job, best, really=really) if what == "checkpoints" else _curves(service, job, best, really)
        if found.files or found.points:
            if really:
                _record(service, found, what)
            yield found


def _ended(service: Service, before: float) -> Iterator[Job]:
    cursor: str | None = None
    while True:
        with service.store.read() as work:
            page = work.jobs.list(states=JOB_ENDS, limit=_PAGE, after=cursor)
        yield from (job for job in page.items if job.ended_at is not None and job.ended_at < before)
        cursor = page.next
        if cursor is None:
            return


def _checkpoints(job: Job, best: int | None, *, really: bool) -> Pruned:
    directory = Path(job.directory)
    files, size = 0, 0
    for trial in [*directory.glob("trials/[0-9]*"), *directory.glob("stages/*/trials/[0-9]*")]:
        if trial.name == f"{best:04d}" if best is not None else False:
            continue
        for checkpoint in (trial / "checkpoints").glob("step_*"):
            files += 1
            size += sum(part.stat().st_size for part in checkpoint.rglob("*") if part.is_file())
            if really:
                shutil.rmtree(checkpoint, ignore_errors=True)
    return Pruned(job=job.id, files=files, size=size)


def _curves(service: Service, job: Job, best: int | None, really: bool) -> Pruned:
    own = select(trials.c.id).join(studies, trials.c.study == studies.c.id).where(studies.c.job == job.id)
    if best is not None:
        own = own.where(trials.c.number != best)
    with service.store.begin() as work:
        if really:
            count = work.connection.execute(delete(points).where(points.c.trial.in_(own))).rowcount
        else:
            count = len(work.connection.execute(select(points.c.step).where(points.c.trial.in_(own))).all())
    return Pruned(job=job.id, points=count)


def _record(service: Service, found: Pruned, what: str) -> None:
    count = found.files if what == "checkpoints" else found.points
    text = f"pruned: {count} {'checkpoints' if what == 'checkpoints' else 'points of curves'} of trials but the best"
    with service.store.begin() as work:
        event = Event(at=service.clock.now(), kind="job.prune", text=text, data={"what": what, "count": count})
        work.jobs.record(found.job, event)
