"""What people want of a running job, carried to its coordinator: the driver looks about every second."""

from __future__ import annotations

from autotune.clock import Clock
from autotune.search.closing import Closing
from autotune.search.coordinator import Coordinator
from autotune.service.spaces import resolve_document
from autotune.spec.types import Start
from autotune.states import JobState
from autotune.store import Store
from autotune.store.values import EventRecord, Job, Lease

ENQUEUE = "job.enqueue"
"""Kind of the event that records a wanted configuration."""


def label_of(record: EventRecord) -> str:
    """The source of the trial that an enqueued configuration becomes: it names the event, so it is tried once."""
    return f"enqueued:{record.id}"


class Steering:
    """Follows what is wanted of one job.

    Args:
        store: The study database.
        lease: The right to drive the job.
        clock: What time it is.
        job: The job as its driver read it.
    """

    def __init__(self, store: Store, lease: Lease, clock: Clock, job: Job) -> None:
        self._store = store
        self._lease = lease
        self._clock = clock
        self._seen = 0
        self._budget = job.document.get("budget")

    def look(self, coordinator: Coordinator, deadline_from: float) -> None:
        """Tells the coordinator what has changed since the last look.

        Args:
            coordinator: The search.
            deadline_from: When the wall-clock budget began, epoch seconds.
        """
        with self._store.read() as work:
            job = work.jobs.get(self._lease.job)
            news = work.trials.events(job.id, after=self._seen, limit=1000)
        self._edited(job, coordinator, deadline_from)
        for record in news:
            self._seen = record.id
            if record.event.kind == ENQUEUE:
                values = record.event.data.get("params")
                coordinator.enqueue(Start(label=label_of(record), values=values if isinstance(values, dict) else {}))
        match job.requested:
            case "cancel":
                coordinator.close(Closing.CANCELLED)
            case "stop":
                coordinator.close(Closing.STOPPED)
                self._show(job, JobState.STOPPING)
            case "pause":
                coordinator.hold(True)
                self._show(job, JobState.PAUSED)
            case _:
                coordinator.hold(False)

    def _edited(self, job: Job, coordinator: Coordinator, deadline_from: float) -> None:
        budget = job.document.get("budget")
        if budget == self._budget:
            return
        fresh = resolve_document(job.document, job.file).space.budget
        coordinator.adjust(fresh, None if fresh.wall_clock_s is None else deadline_from + fresh.wall_clock_s)
        self._budget = budget

    def _show(self, job: Job, state: JobState) -> None:
        """A driver that took over shows the state that its predecessor was asked for."""
        if job.state is JobState.RUNNING:
            with self._store.begin() as work:
                work.jobs.set_state(job.id, state, self._clock.now(), reason="as it was asked for", lease=self._lease)
