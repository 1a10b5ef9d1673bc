"""Counts of jobs and trials for the metrics, at a price that does not grow with what has ended.

An ended job changes no more until somebody resumes it: it is read once and remembered. Only jobs at work are read
again, and that at most once in a few seconds, however often the metrics are scraped.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from autotune.api.port import ServicePort
from autotune.clock import Clock, SystemClock
from autotune.errors import NotFoundError
from autotune.search.advice import RULES
from autotune.search.types import EndKind
from autotune.spec.pruning import PRUNERS
from autotune.states import JOB_ENDS, JobState
from autotune.views import JobView, TrialView

KEEP_S = 10.0
OTHER = "other"

_FIRST_PAGE, _PAGE = 5, 100
_KINDS = frozenset(EndKind)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobCount:
    """What one job adds to the sums.

    Attributes:
        waiting_since: When it was submitted, if it has not been started yet.
        pruners: Pruner -> number of trials that it stopped.
        errors: Kind of error -> number of trials that ended with it.
        advised: Rule and outcome (``better``, ``not_better``, ``open``) -> number of trials that came from its advice.
    """

    state: str
    waiting_since: float | None
    trials: Counter[str]
    pruners: Counter[str]
    errors: Counter[str]
    advised: Counter[tuple[str, str]]
    cost_s: float
    gpu_hours: float


@dataclass(kw_only=True, slots=True)
class Sums:
    """The sums over all jobs; ``queue_age_s`` is the time that the oldest job has waited for its start."""

    jobs: Counter[str] = field(default_factory=Counter)
    trials: Counter[str] = field(default_factory=Counter)
    pruners: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    advised: Counter[tuple[str, str]] = field(default_factory=Counter)
    cost_s: float = 0.0
    gpu_hours: float = 0.0
    queue_age_s: float = 0.0


class Census:
    """Counts the jobs of a service and their trials.

    Args:
        service: Whose jobs.
        clock: What time it is, for ages.
        now: A clock that never goes back, in seconds.
    """

    def __init__(
        self, service: ServicePort, clock: Clock | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._service = service
        self._clock = clock or SystemClock()
        self._now = now
        self._lock = threading.Lock()
        self._ended: dict[str, JobCount] = {}
        self._active: dict[str, JobCount] = {}
        self._at_work: list[JobView] = []
        self._counted_at = float("-inf")

    def count(self) -> Sums:
        """The sums of a moment at most ``KEEP_S`` ago.

        Raises:
            UnreachableError: If the database does not answer.
        """
        with self._lock:
            if self._now() - self._counted_at >= KEEP_S:
                self._look()
                self._counted_at = self._now()
            return _sum([*self._ended.values(), *self._active.values()], self._clock.now())

    def at_work(self) -> list[JobView]:
        """The jobs that had not ended at the moment of the last count."""
        with self._lock:
            return list(self._at_work)

    def _look(self) -> None:
        before = set(self._active)
        active = {job.id: job for state in JobState if state not in JOB_ENDS for job in self._all(state)}
        for job_id in before - set(active):
            # A job that was removed from the database meanwhile is simply gone.
            with suppress(NotFoundError):
                self._ended[job_id] = self._read(self._service.job(job_id))
        for state in JOB_ENDS:
            self._look_for_ended(state)
        # Read after the ended ones: a job that was resumed in between counts once.
        self._active = {job_id: self._read(job) for job_id, job in active.items()}
        self._at_work = list(active.values())
        for job_id in active:
            self._ended.pop(job_id, None)

    def _look_for_ended(self, state: JobState) -> None:
        """Reads jobs, newest first, until a page holds none that is new."""
        cursor: str | None = None
        size = _FIRST_PAGE
        while True:
            page = self._service.jobs(state, size, cursor)
            fresh = [job for job in page.items if job.id not in self._ended]
            for job in fresh:
                self._ended[job.id] = self._read(job)
            if page.next is None or not fresh:
                return
            cursor, size = page.next, _PAGE

    def _all(self, state: JobState) -> Iterator[JobView]:
        cursor: str | None = None
        while True:
            page = self._service.jobs(state, _PAGE, cursor)
            yield from page.items
            cursor = page.next
            if cursor is None:
                return

    def _read(self, job: JobView) -> JobCount:
        pruners: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        for trial in self._trials(job):
            if trial.reason is not None:
                pruners[trial.reason.pruner if trial.reason.pruner in PRUNERS else OTHER] += 1
            if trial.error is not None:
                errors[trial.error.kind if trial.error.kind in _KINDS else OTHER] += 1
        return JobCount(
            state=job.state,
            waiting_since=job.created_at if job.state == JobState.QUEUED and job.started_at is None else None,
            trials=Counter(job.trials),
            pruners=pruners,
            errors=errors,
            advised=_advised(job),
            cost_s=job.cost_s,
            gpu_hours=job.cost_gpu_hours,
        )

    def _trials(self, job: JobView) -> Iterator[TrialView]:
        cursor: str | None = None
        while sum(job.trials.values()):
            page = self._service.trials(job.id, None, 500, cursor)
            yield from page.items
            cursor = page.next
            if cursor is None:
                return


def _advised(job: JobView) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for one in job.advised:
        rule = one.rule if one.rule in RULES else OTHER
        found[rule, "better"] += one.better
        found[rule, "open"] += one.open
        found[rule, "not_better"] += len(one.trials) - one.better - one.open
    return found


def _sum(counts: list[JobCount], now: float) -> Sums:
    sums = Sums()
    for count in counts:
        sums.jobs[count.state] += 1
        sums.trials += count.trials
        sums.pruners += count.pruners
        sums.errors += count.errors
        sums.advised += count.advised
        sums.cost_s += count.cost_s
        sums.gpu_hours += count.gpu_hours
        if count.waiting_since is not None:
            sums.queue_age_s = max(sums.queue_age_s, now - count.waiting_since)
    return sums
