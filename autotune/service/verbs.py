"""What a person can do to a job: pause, resume, stop, cancel, edit, enqueue. Each is one transaction.

A wish is left in the job's ``requested`` and, where a driver is at work, shown in its state at once; the driver looks
at the wish every second (``steering``). A job without a driver changes at once or is queued for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autotune.clock import Clock
from autotune.errors import ConflictError, InvalidSpaceError, Problem, UsageError
from autotune.search.finalists import is_finalist
from autotune.search.types import Event
from autotune.service.owner import is_dead
from autotune.service.spaces import ResolvedSpace, resolve_document
from autotune.service.steering import ENQUEUE, label_of
from autotune.spec.values import JsonValue
from autotune.spec.wanted import wanted_start
from autotune.states import JOB_ENDS, JobState
from autotune.store.database import UnitOfWork
from autotune.store.values import EventRecord, Job

EDITABLE = ("trials", "parallel", "gpu_hours", "wall_clock")
"""The parts of a budget that may change while a job runs."""
_MAX_PRIORITY = 1_000_000


def pause(work: UnitOfWork, job_id: str, clock: Clock) -> Job:
    """Starts no new trials; the running ones go on.

    Raises:
        ConflictError: If the job has ended or is stopping.
    """
    job = _alive(work, job_id, "pause")
    if job.state is JobState.STOPPING or job.requested in ("stop", "cancel"):
        raise ConflictError(
            f"job {job_id!r} is about to end; it cannot be paused.", hint=f"Look at it with: autotune show {job_id}"
        )
    if job.state is not JobState.PAUSED:
        work.jobs.request(job_id, "pause", clock.now())
        work.jobs.set_state(job_id, JobState.PAUSED, clock.now(), reason="paused by a person")
    return work.jobs.get(job_id)


def resume(work: UnitOfWork, job_id: str, clock: Clock) -> Job:
    """Goes on with a paused job, or queues one again that was interrupted, failed or cancelled.

    Raises:
        ConflictError: If the job is complete, at work or stopping.
    """
    job = work.jobs.get(job_id)
    if job.state is JobState.COMPLETED:
        raise ConflictError(
            f"job {job_id!r} is completed; there is nothing left to do.",
            hint=f"See its result with: autotune best {job_id}",
        )
    driven = at_work(job, clock)
    if job.state is JobState.PAUSED and driven:
        work.jobs.request(job_id, None, clock.now())
        work.jobs.set_state(job_id, JobState.RUNNING, clock.now(), reason="resumed by a person")
    elif job.state is not JobState.QUEUED:
        if driven and job.state not in JOB_ENDS:
            raise ConflictError(
                f"job {job_id!r} is {job.state} and has a driver that lives.",
                hint=f"Look at it with: autotune show {job_id}",
            )
        if job.state not in JOB_ENDS:
            work.jobs.request(job_id, None, clock.now())
        release(work, job, clock, reason="resumed by a person")
    elif job.requested is not None:
        work.jobs.request(job_id, None, clock.now())
    return work.jobs.get(job_id)


def stop(work: UnitOfWork, job_id: str, clock: Clock) -> Job:
    """Starts no new trials, lets the running ones finish, and completes the job with what there is.

    Raises:
        ConflictError: If the job has ended.
    """
    job = _alive(work, job_id, "stop")
    if job.lease_owner is None and not work.trials.list(job_id, limit=1):
        reason = "stopped by a person before its first trial"
        work.jobs.set_state(job_id, JobState.CANCELLED, clock.now(), reason=reason)
        return work.jobs.get(job_id)
    work.jobs.request(job_id, "stop", clock.now())
    if not at_work(job, clock):
        # A driver closes the job: it gives the waiting trials their verdicts and names the winner.
        if job.state is not JobState.QUEUED:
            release(work, job, clock, reason="stopped by a person; its trials get their verdicts")
    elif job.state in (JobState.RUNNING, JobState.PAUSED):
        work.jobs.set_state(job_id, JobState.STOPPING, clock.now(), reason="stopped by a person")
    return work.jobs.get(job_id)


def cancel(work: UnitOfWork, job_id: str, clock: Clock) -> Job:
    """Ends the job's running trials after a checkpoint and starts no more.

    Raises:
        ConflictError: If the job has ended.
    """
    job = _alive(work, job_id, "cancel")
    if at_work(job, clock) and job.lease_owner is not None:
        work.jobs.request(job_id, "cancel", clock.now())
    else:
        work.jobs.set_state(job_id, JobState.CANCELLED, clock.now(), reason="cancelled by a person")
    return work.jobs.get(job_id)


def edit(
    work: UnitOfWork, job_id: str, budget: Mapping[str, JsonValue] | None, priority: int | None, clock: Clock
) -> Job:
    """Changes what a job may spend (``None`` takes a limit away), or its place in the queue.

    Raises:
        ConflictError: If a budget would be lower than what was used, or the job has ended.
        InvalidSpaceError: If a value is not allowed.
        UsageError: If nothing would change, or a part of the budget cannot be changed.
    """
    job = _alive(work, job_id, "change")
    if not budget and priority is None:
        raise UsageError("nothing to change.", hint=f"Give a priority or a budget of {', '.join(EDITABLE)}.")
    if priority is not None and abs(priority) > _MAX_PRIORITY:
        raise UsageError(
            f"priority: got {priority}, allowed are whole numbers from -{_MAX_PRIORITY} to {_MAX_PRIORITY}."
        )
    changes = dict(budget or {})
    unknown = [name for name in changes if name not in EDITABLE]
    if unknown:
        raise UsageError(
            f"budget.{unknown[0]} cannot be changed once a job was submitted; allowed: {', '.join(EDITABLE)}.",
            hint="Submit another job for it.",
        )
    document = None
    if changes:
        _without_stages(job, "the budget of")
        before = job.document["budget"]
        assert isinstance(before, dict), "a resolved document has a budget"
        after = {name: value for name, value in {**before, **changes}.items() if value is not None}
        document = {**job.document, "budget": after}
        _not_below(work, job, _resolved(document, job))
    said = [f"budget.{name} = {value}" for name, value in changes.items()]
    said += [] if priority is None else [f"priority = {priority}"]
    return work.jobs.edit(job_id, "; ".join(said), clock.now(), document=document, priority=priority)


def enqueue(work: UnitOfWork, job_id: str, params: Mapping[str, JsonValue], clock: Clock) -> EventRecord:
    """Records a configuration that the job shall try next; the event that records it.

    Raises:
        ConflictError: If the job starts no new trials any more.
        InvalidSpaceError: If the configuration does not lie in the space.
    """
    job = _alive(work, job_id, "add a trial to")
    _without_stages(job, "a trial of")
    resolved = resolve_document(job.document, job.file)
    start = wanted_start(resolved.space, resolved.base, "enqueued", params)
    trials = [record.trial for record in work.trials.list(job_id)]
    if job.state is JobState.STOPPING or job.requested in ("stop", "cancel") or any(map(is_finalist, trials)):
        raise ConflictError(f"job {job_id!r} starts no new trials any more.", hint="Submit another job.")
    waiting = {label_of(record) for record in _wishes(work, job_id)} - {trial.source for trial in trials}
    if len(trials) + len(waiting) >= resolved.space.budget.trials:
        raise ConflictError(
            f"job {job_id!r} has used up its budget of {resolved.space.budget.trials} trials"
            + (f" ({len(waiting)} enqueued ones wait)." if waiting else "."),
            hint=f"Raise it first: autotune edit {job_id} --trials {resolved.space.budget.trials + 1}",
        )
    text = "enqueued: " + (", ".join(f"{path} = {value}" for path, value in start.values.items()) or "the default")
    data: dict[str, JsonValue] = {"params": dict(start.values)}
    number = work.jobs.record(job_id, Event(at=clock.now(), kind=ENQUEUE, text=text, data=data))
    return work.trials.events(job_id, after=number - 1, limit=1)[0]


def at_work(job: Job, clock: Clock) -> bool:
    """Whether somebody works on a job, or will without being asked again."""
    if job.lease_owner is None:
        return job.state is JobState.QUEUED and job.started_at is None
    return (job.lease_expires or 0.0) > clock.now() and not is_dead(job.lease_owner)


def release(work: UnitOfWork, job: Job, clock: Clock, *, reason: str) -> None:
    """Takes a job from whoever held it and queues it."""
    if job.lease_owner is not None:
        work.jobs.revoke(job.id, job.lease_owner)
    work.jobs.set_state(job.id, JobState.QUEUED, clock.now(), reason=reason)


def _alive(work: UnitOfWork, job_id: str, verb: str) -> Job:
    job = work.jobs.get(job_id)
    if job.state in JOB_ENDS:
        raise ConflictError(
            f"job {job_id!r} is {job.state} already; there is nothing to {verb}.",
            hint=f"See its result with: autotune show {job_id}",
        )
    return job


def _without_stages(job: Job, what: str) -> None:
    if "stages" in job.document:
        raise ConflictError(
            f"job {job.id!r} runs in stages, each with a space and a budget of its own; {what} a stage cannot be given "
            "while it runs.",
            hint="Write it into the stage's `budget` or `start_from`, and submit the space as another job.",
        )


def _wishes(work: UnitOfWork, job_id: str) -> list[EventRecord]:
    return [record for record in work.trials.events(job_id, limit=1_000_000) if record.event.kind == ENQUEUE]


def _resolved(document: Mapping[str, object], job: Job) -> ResolvedSpace:
    """The space with its changes; what is wrong has no line in the person's file."""
    try:
        return resolve_document(document, job.file)
    except InvalidSpaceError as error:
        problems = [replace(problem, file="", line=0, column=0) for problem in error.problems]
        said = "; ".join(str(problem) for problem in problems) or error.message
        raise InvalidSpaceError(f"job {job.id!r} cannot be changed so: {said}", problems=problems) from error


def _not_below(work: UnitOfWork, job: Job, resolved: ResolvedSpace) -> None:
    """Refuses a budget that is spent already."""
    budget, totals = resolved.space.budget, work.trials.totals([job.id])[job.id]
    used = sum(totals.states.values())
    hours = totals.cost_s * resolved.space.resources.gpus / 3600
    problems = []
    if budget.trials < used:
        problems.append(Problem(path="budget.trials", message=f"got {budget.trials}, but {used} trials exist already."))
    if budget.gpu_hours is not None and budget.gpu_hours < hours:
        message = f"got {budget.gpu_hours:g}, but {hours:.3g} GPU-hours are used already."
        problems.append(Problem(path="budget.gpu_hours", message=message))
    if problems:
        raise ConflictError(
            f"job {job.id!r}: {'; '.join(str(problem) for problem in problems)}",
            hint=f"To end it with what it has: autotune stop {job.id}",
            problems=problems,
        )
