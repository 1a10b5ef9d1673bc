"""The client that waits for its answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from autotune.client import calls
from autotune.client.calls import Call, job_path
from autotune.client.handle import JobHandle
from autotune.client.outcome import check_succeeded, waited_in_vain
from autotune.client.wire import DEFAULT_URL, connection_options, error_of, failure_of, values_of
from autotune.clock import Clock, SystemClock
from autotune.errors import UnreachableError
from autotune.states import JOB_ENDS
from autotune.views import (
    AdviceView,
    BestView,
    CallerView,
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
    import httpx2

_RECONNECT_S = 1.0

_T = TypeVar("_T")


class Client:
    """Talks to one service.

    Args:
        base_url: The service's address, with its scheme.
        token: The access token, for a service that asks for one.
        transport: An httpx2 transport, for a service inside this process; ``None`` = the network.
        timeout: Seconds to wait for an answer.
        retries: How often a submission is sent again when the connection breaks.
        clock: Tells the time and waits.

    Raises:
        UsageError: If ``base_url`` is no HTTP address.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        *,
        token: str | None = None,
        transport: httpx2.BaseTransport | None = None,
        timeout: float = 30.0,
        retries: int = 3,
        clock: Clock | None = None,
    ) -> None:
        import httpx2

        options = connection_options(base_url, timeout, token)
        self.base_url: str = options["base_url"]
        self._timeout = timeout
        self._retries = retries
        self._clock = clock or SystemClock()
        self._http = httpx2.Client(transport=transport, **options)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def open(self, job: str) -> JobHandle:
        """One job as an object, for notebooks and scripts.

        Raises:
            NotFoundError: If there is no such job.
        """
        return JobHandle(self, self.job(job))

    def plan(self, source: str, *, file: str = "space.yaml") -> PlanView:
        """Says what a space would do; nothing is stored.

        Args:
            source: The text of the space file, YAML or JSON.
            file: Its name, for messages with line numbers.

        Raises:
            InvalidSpaceError: With every problem of the space.
        """
        return self._do(calls.plan(source, file))

    def submit(self, source: str, *, file: str = "space.yaml", idempotency_key: str | None = None) -> JobView:
        """Submits a job. A broken connection is tried again with the same key, so it never makes two jobs.

        Raises:
            InvalidSpaceError: With every problem of the space; nothing was stored.
            ConflictError: If the key was used for another space, or the job contradicts the present state.
            UnreachableError: If the service does not answer after all retries.
        """
        call = calls.submit(source, file, idempotency_key)
        for attempt in range(self._retries + 1):
            try:
                return self._do(call)
            except UnreachableError:
                if attempt == self._retries:
                    raise
                self._clock.sleep(0.5 * 2**attempt)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def jobs(self, *, state: str | None = None, limit: int = 100, cursor: str | None = None) -> Page:
        """A page of ``JobView``, newest first."""
        return self._do(calls.jobs(state, limit, cursor))

    def job(self, job: str) -> JobView:
        """One job.

        Raises:
            NotFoundError: If there is no such job.
        """
        return self._do(calls.job(job))

    def space(self, job: str) -> dict[str, Any]:
        """A job's space as plain JSON, as it was resolved when it was submitted."""
        return self._do(calls.space(job))

    def trials(
        self,
        job: str,
        *,
        state: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        stage: str | None = None,
    ) -> Page:
        """A page of ``TrialView``, by number; of the stage that the job is at, or of the named one."""
        return self._do(calls.trials(job, state, limit, cursor, stage))

    def all_trials(self, job: str, *, state: str | None = None, stage: str | None = None) -> Iterator[TrialView]:
        """Every trial of a job, or of one of its stages, page after page."""
        cursor: str | None = None
        while True:
            page = self.trials(job, state=state, limit=500, cursor=cursor, stage=stage)
            yield from page.items
            cursor = page.next
            if cursor is None:
                return

    def trial(self, job: str, number: int, *, stage: str | None = None) -> TrialView:
        """One trial.

        Raises:
            NotFoundError: If there is no such job or trial.
        """
        return self._do(calls.trial(job, number, stage))

    def curves(
        self,
        job: str,
        *,
        metrics: Sequence[str] = (),
        trials: Sequence[int] | None = None,
        max_points: int = 500,
        stage: str | None = None,
    ) -> list[CurveView]:
        """Curves of the named metrics (none named = all) and trials (``None`` = all)."""
        return self._do(calls.curves(job, metrics, trials, max_points, stage))

    def advice(self, job: str, *, trial: int | None = None, stage: str | None = None) -> list[AdviceView]:
        """What rules on curves find in the job's trials, or in one of them, each with a change to try.

        Raises:
            NotFoundError: If there is no such job or trial.
        """
        return self._do(calls.advice(job, trial, stage))

    def best(self, job: str) -> BestView:
        """The best configuration with its evidence.

        Raises:
            NotFoundError: If no trial has completed within the constraints.
        """
        return self._do(calls.best(job))

    def export(self, job: str, *, to: str, trial: int | None = None, stage: str | None = None) -> ExportView:
        """A trial's configuration as something to run or to keep.

        Args:
            job: The job's id.
            to: ``native``, ``verl``, ``command`` or ``yaml``.
            trial: The trial's number; ``None`` = the best one.
            stage: Name of the trial's stage; ``None`` = the one that the job is at.

        Raises:
            NotFoundError: If there is no such trial, or none has completed within the constraints.
            UsageError: If the job's configurations have no such form.
        """
        return self._do(calls.export(job, to, trial, stage))

    def events(self, job: str, *, after: int = 0, limit: int = 100) -> list[EventView]:
        """The job's record, oldest first, beginning after the event ``after``."""
        return self._do(calls.events(job, after, limit))

    def stream_events(self, job: str, *, after: int = 0, patience: float = 60.0) -> Iterator[EventView]:
        """Follows the job's record from the event ``after`` on, as it is written, until the job has ended.

        A broken connection is taken up again where it broke: no event is missed and none comes twice.

        Args:
            job: The job's id.
            after: Id of the last event already known; 0 = from the beginning.
            patience: Seconds for which the service may be away.

        Raises:
            NotFoundError: If there is no such job.
            UnreachableError: If the service stays away longer than ``patience``; the job may go on.
        """
        away_since: float | None = None
        while True:
            try:
                for message in self._messages(f"{job_path(job)}/events", after):
                    away_since = None
                    if message.event == "end":
                        return
                    if message.data:
                        event = values_of(EventView, [message.json()])[0]
                        yield event
                        after = event.id
            except UnreachableError:
                now = self._clock.now()
                away_since = now if away_since is None else away_since
                if now - away_since >= patience:
                    raise
            self._clock.sleep(_RECONNECT_S)

    def _messages(self, path: str, after: int) -> Iterator[httpx2.ServerSentEvent]:
        import httpx2

        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        # The service sends a comment every 15 s: three of them missing is a dead line.
        wait = httpx2.Timeout(self._timeout, read=max(self._timeout, 45.0))
        try:
            with self._http.stream("GET", path, headers=headers, timeout=wait) as answer:
                if not answer.is_success:
                    answer.read()
                    raise error_of(answer)
                yield from httpx2.EventSource(answer)
        except httpx2.TransportError as error:
            raise failure_of(self.base_url, self._timeout, error) from error

    def logs(self, job: str, *, trial: int | None = None, tail: int = 200, stage: str | None = None) -> str:
        """The end of the driver's log, or of a trial's."""
        return self._do(calls.logs(job, trial, tail, stage))

    def report(self, job: str, *, form: str = "html") -> str:
        """The job's self-contained report as ``html``, ``markdown`` or ``json``."""
        return self._do(calls.report(job, form))

    def register(self, job: str, *, name: str | None = None) -> ModelVersionView:
        """The best trial's checkpoint as a model version in MLflow, under the job's name or another.

        Raises:
            ConflictError: If the checkpoint is not where the service is, or cannot be exported.
        """
        return self._do(calls.register(job, name))

    def pause(self, job: str) -> JobView:
        """Starts no new trials; the running ones go on. ``resume`` takes it back.

        Raises:
            ConflictError: If the job does not run.
        """
        return self._do(calls.act(job, "pause"))

    def resume(self, job: str) -> JobView:
        """Goes on with a job that was paused, interrupted, failed or cancelled."""
        return self._do(calls.act(job, "resume"))

    def stop(self, job: str) -> JobView:
        """Starts no new trials, lets the running ones finish, and completes the job with what there is.

        Raises:
            ConflictError: If the job has ended.
        """
        return self._do(calls.act(job, "stop"))

    def cancel(self, job: str) -> JobView:
        """Ends the job's running trials now; they write a checkpoint first."""
        return self._do(calls.act(job, "cancel"))

    def edit(
        self,
        job: str,
        *,
        priority: int | None = None,
        budget: Mapping[str, Any] | None = None,
        search: Mapping[str, Any] | None = None,
        stage: str | None = None,
    ) -> JobView:
        """Changes what a job may spend, its place in the queue, or, while it is at rest, what it searches.

        Args:
            job: The job's id.
            priority: Jobs with a higher one are started first.
            budget: ``trials``, ``parallel``, ``gpu_hours``, ``wall_clock``, written as in a space file.
            search: Parameter -> its domain as in a space file, or ``None`` to search it no longer.
            stage: The stage whose search is meant; ``None`` = the one that the job is at.

        Raises:
            ConflictError: If a budget would be lower than what was used, or the job has ended.
            InvalidSpaceError: If a value is not allowed.
        """
        return self._do(calls.edit(job, priority, budget, search, stage))

    def enqueue(self, job: str, params: Mapping[str, Any]) -> EventView:
        """Lets a job run this configuration next; what is not named has its default.

        Returns:
            The event that records it; the trial's source will name the event's id.

        Raises:
            InvalidSpaceError: If a parameter is unknown or outside the space.
            ConflictError: If the job has ended.
        """
        return self._do(calls.enqueue(job, params))

    def spaces(self) -> list[SpaceView]:
        """The space files that ship with the service."""
        return self._do(calls.spaces())

    def me(self) -> CallerView:
        """Who the service takes us to be.

        Raises:
            UnauthenticatedError: If the token opens nothing.
        """
        return self._do(calls.me())

    def tokens(self) -> list[TokenView]:
        """All access tokens, without their secrets; for administrators."""
        return self._do(calls.tokens())

    def create_token(
        self, name: str, *, role: str = "viewer", team: str = "", expires_s: float | None = None
    ) -> IssuedTokenView:
        """Makes an access token, whose text is told this once; for administrators.

        Args:
            name: Whose it is.
            role: ``viewer``, ``operator`` or ``admin``.
            team: Whose jobs it may act on.
            expires_s: Seconds until it expires; ``None`` = never.
        """
        return self._do(calls.create_token(name, role, team, expires_s))

    def revoke_token(self, token_id: str) -> TokenView:
        """Takes an access token back; for administrators."""
        return self._do(calls.revoke_token(token_id))

    def teams(self) -> list[TeamView]:
        """The teams that have a quota or a share of their own; for administrators."""
        return self._do(calls.teams())

    def put_team(self, team: TeamView) -> TeamView:
        """Sets what a team may use; for administrators."""
        return self._do(calls.put_team(team))

    def ready(self) -> dict[str, str]:
        """Component -> ``ok``.

        Raises:
            UnreachableError: With one problem for each component that does not work.
        """
        return self._do(calls.ready())

    def wait(self, job: str, *, timeout: float | None = None, poll: float = 1.0) -> JobView:
        """Waits until a job has ended well.

        Args:
            job: The job's id.
            timeout: Seconds to wait at most; ``None`` = as long as it takes.
            poll: Seconds between two looks.

        Raises:
            JobFailedError: If the job failed, was cancelled, or not one of its trials completed.
            WaitTimeoutError: If the time was up first; the job goes on.
        """
        end = None if timeout is None else self._clock.now() + timeout
        while True:
            view = self.job(job)
            if view.state in JOB_ENDS:
                check_succeeded(view)
                return view
            if end is not None and self._clock.now() >= end:
                raise waited_in_vain(view, timeout or 0.0)
            self._clock.sleep(poll if end is None else max(0.0, min(poll, end - self._clock.now())))

    def _do(self, call: Call[_T]) -> _T:
        import httpx2

        params = {name: value for name, value in call.query.items() if value is not None}
        patience = call.patience_s or self._timeout
        try:
            answer = self._http.request(
                call.method,
                call.path,
                params=params,
                content=call.content,
                headers=dict(call.headers),
                timeout=patience,
            )
        except httpx2.TransportError as error:
            raise failure_of(self.base_url, patience, error) from error
        if not answer.is_success:
            raise error_of(answer)
        return call.read(answer)
