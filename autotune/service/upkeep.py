"""Finds what does not fit together in the study database, in Optuna's studies and in MLflow; repairs it when told to.

The study database is the truth: a repair lets jobs and trials that nobody works on be taken up again, and brings the
mirrors up to date. It never touches a job whose driver is at work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from autotune.clock import Clock
from autotune.errors import AutotuneError, UnreachableError
from autotune.search.ranking import best_of
from autotune.search.types import Event, Trial
from autotune.service import verbs
from autotune.service.observers import EXPERIMENT, observers_for
from autotune.service.owner import new_owner
from autotune.service.service import Service
from autotune.service.spaces import resolve_document
from autotune.states import JOB_ENDS, JobState, TrialState
from autotune.store import SqlBook
from autotune.store.values import Job, Lease, Study

logger = logging.getLogger(__name__)

_PAGE = 200
_LEASE_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that does not fit.

    Attributes:
        kind: ``job``, ``trial``, ``optuna`` or ``mlflow``: what is wrong.
        text: What is wrong, in a sentence.
        repaired: Whether it was put right.
        fix: What a repair does, or did.
    """

    job: str
    kind: str
    text: str
    fix: str
    repaired: bool = False


def check(service: Service, *, repair: bool = False, mlflow: bool = True) -> Iterator[Finding]:
    """Looks at every job.

    Args:
        service: The service, on the machine that may write the databases.
        repair: Whether to put right what is found.
        mlflow: Whether to look at MLflow too, which takes longest.
    """
    for job in _jobs(service):
        if job.lease_owner is not None and verbs.at_work(job, service.clock):
            continue
        if job.state not in (*JOB_ENDS, JobState.QUEUED) and not _at_rest(job):
            yield _abandoned(service, job, repair=repair)
        with service.store.read() as work:
            studies = work.jobs.studies(job.id)
            trials = {study.stage: [r.trial for r in work.trials.list(job.id, study.stage)] for study in studies}
        for study in studies:
            lost = [trial for trial in trials[study.stage] if trial.state is TrialState.RUNNING]
            for trial in lost:
                yield _lost(service, job, study, trial, repair=repair)
            if lost and repair:
                with service.store.read() as work:
                    trials[study.stage] = [record.trial for record in work.trials.list(job.id, study.stage)]
            yield from _mirrors(service, job, study, trials[study.stage], repair=repair, mlflow=mlflow)


def _jobs(service: Service) -> Iterator[Job]:
    cursor: str | None = None
    while True:
        with service.store.read() as work:
            page = work.jobs.list(limit=_PAGE, after=cursor)
        yield from page.items
        cursor = page.next
        if cursor is None:
            return


def _at_rest(job: Job) -> bool:
    return job.state is JobState.PAUSED and job.lease_owner is None


def _abandoned(service: Service, job: Job, *, repair: bool) -> Finding:
    found = Finding(
        job=job.id,
        kind="job",
        text=f"it is {job.state}, and its driver is gone",
        fix="it is queued, and goes on from its checkpoints",
    )
    if repair:
        with service.store.begin() as work:
            verbs.release(work, work.jobs.get(job.id), service.clock, reason="its driver is gone")
    return replace(found, repaired=repair)


def _lost(service: Service, job: Job, study: Study, trial: Trial, *, repair: bool) -> Finding:
    ended = job.state in JOB_ENDS
    state = TrialState.CANCELLED if ended else TrialState.QUEUED
    where = f" of stage {study.title}" if study.title else ""
    found = Finding(
        job=job.id,
        kind="trial",
        text=f"trial {trial.number}{where} is running, and nobody runs it",
        fix=f"it is {state}" + ("" if ended else ", and goes on from its last checkpoint"),
    )
    if repair:
        now = service.clock.now()
        moved = replace(trial, state=state, ended_at=now if ended else None)
        text = f"trial {trial.number} was running without anybody who ran it and is {state}"
        event = Event(at=now, kind="trial.state", text=text, trial=trial.number, data={"state": str(state)})
        _with_lease(
            service, job, lambda lease: SqlBook(service.store, study.id, lease, study.stage).save(moved, [], [event])
        )
    return replace(found, repaired=repair)


def _mirrors(
    service: Service, job: Job, study: Study, trials: list[Trial], *, repair: bool, mlflow: bool
) -> Iterator[Finding]:
    behind = [("optuna", text) for text in _optuna(service, study, trials)]
    behind += [("mlflow", text) for text in _mlflow(service, study, trials)] if mlflow else []
    repaired = False
    if behind and repair:
        try:
            write_mirrors(service, job, study)
            repaired = True
        except AutotuneError as error:
            logger.warning("the mirrors of %s are still behind: %s", job.id, error.message)
    for kind, text in behind:
        yield Finding(job=job.id, kind=kind, text=text, fix="the mirror is written again", repaired=repaired)


def _optuna(service: Service, study: Study, trials: list[Trial]) -> list[str]:
    from autotune.store.mirror_check import differences
    from autotune.store.optuna_storage import open_storage

    storage = open_storage(service.settings.study_database)
    try:
        return list(differences(storage, study.name, trials))
    finally:
        storage.remove_session()
        storage.engine.dispose()


def _mlflow(service: Service, study: Study, trials: list[Trial]) -> list[str]:
    from autotune.tracking.runs import trial_runs

    if not trials:
        return []
    settings = service.settings
    runs = trial_runs(settings.tracking_uri, EXPERIMENT, study.base_name, settings.root / "mlflow-artifacts")
    missing = [trial.number for trial in trials if trial.number not in runs and trial.started_at is not None]
    twice = sorted(number for number, count in runs.items() if count > 1)
    said = [f"MLflow has no run of trial {number}" for number in missing]
    return said + [f"MLflow has {runs[number]} runs of trial {number}" for number in twice]


def write_mirrors(service: Service, job: Job, study: Study) -> None:
    """Brings both mirrors of a study up to date.

    Raises:
        AutotuneError: If one of them does not answer.
    """
    resolved = resolve_document(job.document, job.file)
    part = resolved.parts[study.stage]
    nobody = Lease(job=job.id, owner="", token=-1, expires=0.0)
    history = SqlBook(service.store, study.id, nobody, study.stage).load()
    best = best_of(history.trials, part.space.objective)
    for name, build in observers_for(service, job, part, study).items():
        try:
            observer = build()
            observer.reconcile(history)
            observer.close(best, job.state)
        except AutotuneError:
            raise
        except Exception as error:
            raise UnreachableError(f"{name} cannot be written ({error}).") from error


def _with_lease(service: Service, job: Job, act: Callable[[Lease], None]) -> None:
    """Does something as the job's driver would, so that no driver can do it at the same time."""
    clock: Clock = service.clock
    with service.store.begin() as work:
        lease = work.jobs.lease(job.id, new_owner(), clock.now(), _LEASE_S)
    try:
        act(lease)
    finally:
        with service.store.begin() as work:
            work.jobs.release(lease)
