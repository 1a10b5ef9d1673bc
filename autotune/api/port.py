"""What the API needs from the service: the use cases of today, and nothing about how they are done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from autotune.access import Caller, Role
from autotune.spec.values import JsonValue
from autotune.views import (
    AdviceView,
    BestView,
    CurveView,
    EventView,
    ExportView,
    IssuedTokenView,
    JobView,
    ModelVersionView,
    Page,
    PlanView,
    SpaceView,
    TeamView,
    TokenView,
    TrialView,
)

if TYPE_CHECKING:
    from autotune.service.occupancy import Occupancy


class AccessPort(Protocol):
    """Tokens and teams. Every method may be called from any thread and raises ``AutotuneError`` only."""

    def shut(self) -> bool:
        """Whether callers need a token."""
        ...

    def let_in(self, text: str | None) -> Caller:
        """Who holds this token.

        Raises:
            UnauthenticatedError: If there is no token, or it opens nothing.
        """
        ...

    def issue(self, caller: Caller, name: str, role: Role, team: str, expires_s: float | None) -> IssuedTokenView:
        """Makes a token, whose text is told this once."""
        ...

    def tokens(self, caller: Caller) -> list[TokenView]:
        """All tokens, without their secrets."""
        ...

    def revoke(self, caller: Caller, token_id: str) -> TokenView:
        """Takes a token back."""
        ...

    def teams(self, caller: Caller) -> list[TeamView]:
        """The teams that have a quota or a share of their own."""
        ...

    def put_team(self, caller: Caller, team: TeamView) -> TeamView:
        """Sets what a team may use."""
        ...


class ServicePort(Protocol):
    """The use cases of the service. Every method may be called from any thread and raises ``AutotuneError`` only."""

    @property
    def access(self) -> AccessPort:
        """Who may do what."""
        ...

    def as_caller(self, caller: Caller) -> ServicePort:
        """The same service, asked by somebody: what that person may not do is refused."""
        ...

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

    def trials(self, job_id: str, state: str | None, limit: int, cursor: str | None, stage: str | None = None) -> Page:
        """Trials of a job by number, as a page of ``TrialView``; ``stage`` names another than the one it is at."""
        ...

    def trial(self, job_id: str, number: int, stage: str | None = None) -> TrialView:
        """One trial.

        Raises:
            NotFoundError: If there is no such job, stage or trial.
        """
        ...

    def curves(
        self,
        job_id: str,
        metrics: Sequence[str],
        trials: Sequence[int] | None,
        max_points: int,
        stage: str | None = None,
    ) -> list[CurveView]:
        """Curves of the named metrics (none named = all), thinned to ``max_points`` steps a trial."""
        ...

    def advice(self, job_id: str, trial: int | None, stage: str | None) -> list[AdviceView]:
        """What the rules on curves find in the trials of a job, or in one of them.

        Raises:
            NotFoundError: If there is no such job, stage or trial.
        """
        ...

    def best(self, job_id: str) -> BestView:
        """The best feasible completed trial.

        Raises:
            NotFoundError: If no trial has completed within the constraints.
        """
        ...

    def export(self, job_id: str, to: str, trial: int | None = None, stage: str | None = None) -> ExportView:
        """A trial's configuration as a command or as YAML; without a number the best one's.

        Raises:
            NotFoundError: If there is no such trial, or none has completed within the constraints.
            UsageError: If the job's configurations have no such form.
        """
        ...

    def events(self, job_id: str, after: int, limit: int) -> list[EventView]:
        """The job's record, oldest first, beginning after the event ``after``."""
        ...

    def logs(self, job_id: str, trial: int | None, tail: int, stage: str | None = None) -> str:
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

    def pause(self, job_id: str) -> JobView:
        """Starts no new trials; the running ones go on."""
        ...

    def resume(self, job_id: str) -> JobView:
        """Goes on with a job that was paused, interrupted, failed or cancelled."""
        ...

    def stop(self, job_id: str) -> JobView:
        """Starts no new trials, lets the running ones finish, and completes the job with what there is."""
        ...

    def edit(self, job_id: str, budget: Mapping[str, JsonValue] | None, priority: int | None) -> JobView:
        """Changes what a job may spend, or its place in the queue.

        Raises:
            ConflictError: If a budget would be lower than what was used, or the job has ended.
            InvalidSpaceError: If a value is not allowed.
        """
        ...

    def edit_space(self, job_id: str, changes: Mapping[str, JsonValue], stage: str | None) -> JobView:
        """Changes what a job searches while it is at rest.

        Raises:
            ConflictError: If the job is not at rest, or the stage is over.
            InvalidSpaceError: If the new space cannot be used.
        """
        ...

    def enqueue(self, job_id: str, params: Mapping[str, JsonValue]) -> EventView:
        """Lets a job try a configuration next; the event that records it.

        Raises:
            ConflictError: If the job starts no new trials any more.
            InvalidSpaceError: If the configuration does not lie in the space.
        """
        ...

    def spaces(self) -> list[SpaceView]:
        """The space files that ship with the project."""
        ...

    def report(self, job_id: str, form: str = "html") -> Path:
        """The job's report as ``html``, ``markdown`` or ``json``, written when it is missing or older than the job."""
        ...

    def register(self, job_id: str, name: str | None = None) -> ModelVersionView:
        """Registers the best trial's checkpoint as a model version in MLflow.

        Raises:
            ConflictError: If its checkpoint is not on this machine, or cannot be exported.
        """
        ...

    def ready(self) -> Mapping[str, str]:
        """Component -> ``ok``, or what is wrong with it."""
        ...

    def occupancy(self) -> Occupancy:
        """GPU slots that are held and free, and how fresh the drivers' leases are."""
        ...

    def ping(self) -> None:
        """Touches the study database once.

        Raises:
            UnreachableError: If it does not answer.
        """
        ...
