"""Changing what a job searches while it is at rest: a new version of its space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autotune.clock import Clock
from autotune.errors import ConflictError, InvalidSpaceError, UsageError
from autotune.search.remap import remapped
from autotune.service import verbs
from autotune.service.spaces import ResolvedSpace, resolve_document
from autotune.service.staging import is_over, named
from autotune.spec.domains import describe_domain
from autotune.spec.edits import edited
from autotune.spec.types import Space
from autotune.spec.values import JsonValue
from autotune.states import TRIAL_ENDS, JobState
from autotune.store.database import UnitOfWork
from autotune.store.values import Job

_AT_REST = (JobState.PAUSED, JobState.FAILED, JobState.CANCELLED)


def edit_space(
    work: UnitOfWork, job_id: str, changes: Mapping[str, JsonValue], clock: Clock, stage: str | None = None
) -> Job:
    """Gives a job that is at rest another search; it goes on with it when it is resumed.

    The trials that the new space could have proposed too become trials of it, and the sampler learns from them; the
    others stay in the record, count as used and may still win. Optuna cannot change the choices of a parameter within a
    study, so the new version is mirrored into a study of its own, ``NAME@2``.

    Args:
        work: An open transaction.
        job_id: The job.
        changes: As for ``spec.edits.edited``.
        clock: What time it is.
        stage: Name of the stage; ``None`` = the one that the job is at.

    Raises:
        ConflictError: If the job is not at rest, or the stage is over.
        InvalidSpaceError: If the new space cannot be used.
        NotFoundError: If there is no such job or stage.
        UsageError: If nothing would change.
    """
    job = work.jobs.get(job_id)
    study = named(work.jobs.studies(job_id), job_id, stage)
    _refuse_busy(job, clock)
    before = resolve_document(job.document, job.file)
    part = before.parts[study.stage]
    if is_over(study, part.stage):
        raise ConflictError(
            f"stage {study.title!r} of job {job_id!r} is over.", hint="Change a stage that is still to come."
        )
    records = work.trials.list(job_id, study.stage)
    document = edited(job.document, changes, tried=len(records), stage=study.title or None)
    after = _resolved(document, job)
    new = after.parts[study.stage]
    if new.space.search == part.space.search:
        raise UsageError("nothing would change.", hint="Name a parameter with its new range, or with null.")
    ended, fit = 0, 0
    for record in records:
        fitting = remapped(new.space, new.base, record.trial, new.seed_path)
        over = record.trial.state in TRIAL_ENDS
        ended, fit = ended + over, fit + (over and fitting is not None)
        if fitting is not None and fitting.params != record.trial.params:
            work.trials.set_params(study.id, record.trial.number, fitting.params)
    study = work.jobs.renew_study(study)
    text = (
        f"space version {study.version}: {_difference(part.space, new.space)}; {fit} of {ended} ended trials still fit"
    )
    return work.jobs.edit(job_id, text, clock.now(), document=after.document)


def _refuse_busy(job: Job, clock: Clock) -> None:
    if job.state not in _AT_REST:
        raise ConflictError(
            f"job {job.id!r} is {job.state}; its space can be changed while it is {', '.join(_AT_REST)}.",
            hint=f"Pause it first: autotune pause {job.id}",
        )
    if job.lease_owner is not None and verbs.at_work(job, clock):
        raise ConflictError(
            f"job {job.id!r} is {job.state}, but trials of it still run.",
            hint="Try again when they have ended, or cancel the job.",
        )


def _resolved(document: Mapping[str, JsonValue], job: Job) -> ResolvedSpace:
    try:
        return resolve_document(document, job.file)
    except InvalidSpaceError as error:
        # The places are those of a document that nobody has seen.
        problems = [replace(problem, file="", line=0, column=0) for problem in error.problems]
        raise InvalidSpaceError(
            f"the space of job {job.id!r} cannot be changed so: {'; '.join(map(str, problems)) or error.message}",
            hint=problems[0].hint if problems else error.hint,
            problems=problems,
        ) from error


def _difference(old: Space, new: Space) -> str:
    said = []
    for path in dict.fromkeys([*old.search, *new.search]):
        was, becomes = old.search.get(path), new.search.get(path)
        if was is None and becomes is not None:
            said.append(f"{path} is searched in {describe_domain(becomes.domain)}")
        elif was is not None and becomes is None:
            said.append(f"{path} is searched no longer")
        elif was is not None and becomes is not None and was != becomes:
            said.append(f"{path}: {describe_domain(was.domain)} -> {describe_domain(becomes.domain)}")
    return ", ".join(said) or "the same ranges"
