"""What the API needs from the service: the use cases of today, and nothing about how they are done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from autotune.views import BestView, CurveView, EventView, JobView, Page, PlanView, SpaceView, TrialView


class ServicePort(Protocol):
    """The use cases of the service. Every method may be called from any thread and raises ``AutotuneError`` only."""

    def plan(self, source: str, file: str) -> PlanView:
        """What a space would do; nothing is stored.

        Args:
            source: The text of the space file, YAML or JSON.
            file: The file's name as the person gave it, for messages.

        Raises:
            InvalidSpaceError: With every problem of the space.
        """
        ...

    def submit(self, source: str, file: str, idempotency_key: str | None) -> tuple[JobView, bool]:
        """Stores a job. The same key again returns the first job and ``False``.

        Raises:
            InvalidSpaceError: With every problem of the space.
            ConflictError: If the key was used for another space, or the job contradicts the present state.
        """
        ...

    def jobs(self, state: str | None, limit: int, cursor: str | None) -> Page:
        """Jobs, newest first, as a page of ``JobView``."""
        ...

    def job(self, job_id: str) -> JobView:
        """One job.

        Raises:
            NotFoundError: If there is no such job.
        """
        ...

    def trials(self, job_id: str, state: str | None, limit: int, cursor: str | None) -> Page:
        """Trials of a job by number, as a page of ``TrialView``."""
        ...

    def trial(self, job_id: str, number: int) -> TrialView:
        """One trial.

        Raises:
            NotFoundError: If there is no such job or trial.
        """
        ...

    def curves(
        self, job_id: str, metrics: Sequence[str], trials: Sequence[int] | None, max_points: int
    ) -> list[CurveView]:
        """Curves of the named metrics (none named = all), thinned to ``max_points`` steps a trial."""
        ...

    def best(self, job_id: str) -> BestView:
        """The best feasible completed trial.

        Raises:
            NotFoundError: If no trial has completed within the constraints.
        """
        ...

    def events(self, job_id: str, after: int, limit: int) -> list[EventView]:
        """The job's record, oldest first, beginning after the event ``after``."""
        ...

    def logs(self, job_id: str, trial: int | None, tail: int) -> str:
        """The last ``tail`` lines of the driver's log or of a trial's newest attempt."""
        ...

    def document(self, job_id: str) -> Mapping[str, object]:
        """The space of a job as plain JSON, as it was resolved when it was submitted.

        Raises:
            NotFoundError: If there is no such job.
        """
        ...

    def cancel(self, job_id: str) -> JobView:
        """Ends the job's running trials after a checkpoint and starts no more."""
        ...

    def resume(self, job_id: str) -> JobView:
        """Queues a job again that was interrupted, failed or cancelled."""
        ...

    def spaces(self) -> list[SpaceView]:
        """The space files that ship with the project."""
        ...

    def report(self, job_id: str) -> Path:
        """The job's HTML report, written when it is missing or older than the job."""
        ...

    def ready(self) -> Mapping[str, str]:
        """Component -> ``ok``, or what is wrong with it."""
        ...

    def ping(self) -> None:
        """Touches the study database once.

        Raises:
            UnreachableError: If it does not answer.
        """
        ...
