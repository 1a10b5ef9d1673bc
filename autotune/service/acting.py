"""The use cases that change a job; what a caller may not do is refused here."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.access import Caller
from autotune.clock import Clock
from autotune.service import verbs
from autotune.service.editing import edit_space
from autotune.service.ending import end_running
from autotune.service.present import event_view
from autotune.service.safety import refuse_code, refuse_paths
from autotune.service.spaces import resolve_document
from autotune.settings import Settings
from autotune.spec.values import JsonValue
from autotune.states import JOB_ENDS, JobState
from autotune.store import Store
from autotune.store.database import UnitOfWork
from autotune.store.values import Job
from autotune.views import EventView, JobView


class Acting:
    """What people do to jobs; ``Service`` is one."""

    settings: Settings
    store: Store
    clock: Clock
    caller: Caller

    def pause(self, job_id: str) -> JobView:
        """Starts no new trials; the running ones go on.

        Raises:
            ConflictError: If the job has ended or is about to.
            NotFoundError: If there is no such job.
        """
        with self.store.begin() as work:
            self._may_act(work, job_id, "pausing a job")
            return self._job_view(work, verbs.pause(work, job_id, self.clock))

    def resume(self, job_id: str) -> JobView:
        """Goes on with a paused job, or queues one again that was interrupted, failed or cancelled.

        Raises:
            ConflictError: If the job is complete or at work.
            NotFoundError: If there is no such job.
        """
        with self.store.begin() as work:
            self._may_act(work, job_id, "resuming a job")
            return self._job_view(work, verbs.resume(work, job_id, self.clock))

    def stop(self, job_id: str) -> JobView:
        """Starts no new trials, lets the running ones finish, and completes the job with what there is.

        Raises:
            ConflictError: If the job has ended.
            NotFoundError: If there is no such job.
        """
        with self.store.begin() as work:
            self._may_act(work, job_id, "stopping a job")
            return self._job_view(work, verbs.stop(work, job_id, self.clock))

    def cancel(self, job_id: str) -> JobView:
        """Ends the job's running trials after a checkpoint and starts no more.

        Raises:
            ConflictError: If the job has ended.
            NotFoundError: If there is no such job.
        """
        with self.store.begin() as work:
            self._may_act(work, job_id, "cancelling a job")
            job = verbs.cancel(work, job_id, self.clock)
            if job.state in JOB_ENDS:  # its driver had died, and nobody has taken over yet
                end_running(work, self.settings.job_dir(job_id), job_id, self.clock.now(), "cancelled by a person")
            return self._job_view(work, job)

    def edit(self, job_id: str, budget: Mapping[str, JsonValue] | None = None, priority: int | None = None) -> JobView:
        """Changes what a job may spend, or its place in the queue.

        Raises:
            ConflictError: If a budget would be lower than what was used, or the job has ended.
            InvalidSpaceError: If a value is not allowed.
            NotFoundError: If there is no such job.
            UsageError: If nothing would change, or a part of the budget cannot be changed.
        """
        with self.store.begin() as work:
            self._may_act(work, job_id, "changing a job")
            return self._job_view(work, verbs.edit(work, job_id, budget, priority, self.clock))

    def edit_space(self, job_id: str, changes: Mapping[str, JsonValue], stage: str | None = None) -> JobView:
        """Changes what a job searches while it is at rest; it goes on with the new space when it is resumed.

        Args:
            job_id: A paused, failed or cancelled job without running trials.
            changes: Parameter -> its domain as in a space file, or ``None`` to search it no longer.
            stage: Name of the stage; ``None`` = the one that the job is at.

        Raises:
            ConflictError: If the job is not at rest, or the stage is over.
            InvalidSpaceError: If the new space cannot be used.
            NotAllowedError: If it would run code or read files that the caller's spaces may not.
            NotFoundError: If there is no such job or stage.
            UsageError: If nothing would change.
        """
        with self.store.begin() as work:
            self._may_act(work, job_id, "changing a job")
            job = edit_space(work, job_id, changes, self.clock, stage)
            resolved = resolve_document(job.document, job.file)
            refuse_code(resolved, self.caller, self.settings.allowed)
            refuse_paths(resolved, self.caller, self.settings.allowed_paths)
            return self._job_view(work, job)

    def enqueue(self, job_id: str, params: Mapping[str, JsonValue]) -> EventView:
        """Lets a job try a configuration next.

        Raises:
            ConflictError: If the job starts no new trials any more, or its budget of trials is used up.
            InvalidSpaceError: If the configuration does not lie in the space.
            NotFoundError: If there is no such job.
        """
        with self.store.begin() as work:
            self._may_act(work, job_id, "enqueuing a trial")
            return event_view(verbs.enqueue(work, job_id, params, self.clock))

    def requeue_abandoned(self) -> list[str]:
        """Queues the jobs whose driver is gone; returns their ids."""
        with self.store.begin() as work:
            begun = [JobState.RUNNING, JobState.PAUSED, JobState.STOPPING]
            held = work.jobs.list(states=begun, limit=1000).items
            # A paused job that its driver gave back is at rest.
            lost = [
                job
                for job in held
                if not verbs.at_work(job, self.clock) and not (job.state is JobState.PAUSED and job.lease_owner is None)
            ]
            for job in lost:
                verbs.release(work, job, self.clock, reason="its driver is gone")
        return [job.id for job in lost]

    def _may_act(self, work: UnitOfWork, job_id: str, what: str) -> None:
        job = work.jobs.get(job_id)
        self.caller.require_job(job.id, job.owner, job.team, what)

    def _job_view(self, work: UnitOfWork, job: Job) -> JobView:
        raise NotImplementedError
