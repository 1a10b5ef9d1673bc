"""The same client as coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from autotune.client import calls
from autotune.client.calls import Call, job_path
from autotune.client.outcome import check_succeeded, waited_in_vain
from autotune.client.wire import DEFAULT_URL, connection_options, error_of, failure_of, values_of
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


class AsyncClient:
    """Talks to one service without blocking; every method does what ``Client``'s of the same name does.

    Args:
        base_url: The service's address, with its scheme.
        token: The access token, for a service that asks for one.
        transport: An httpx2 transport; ``None`` = the network.
        timeout: Seconds to wait for an answer.
        retries: How often a submission is sent again when the connection breaks.

    Raises:
        UsageError: If ``base_url`` is no HTTP address.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        *,
        token: str | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        timeout: float = 30.0,
        retries: int = 3,
    ) -> None:
        import httpx2

        options = connection_options(base_url, timeout, token)
        self.base_url: str = options["base_url"]
        self._timeout = timeout
        self._retries = retries
        self._http = httpx2.AsyncClient(transport=transport, **options)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def plan(self, source: str, *, file: str = "space.yaml") -> PlanView:
        """Says what a space would do; nothing is stored."""
        return await self._do(calls.plan(source, file))

    async def submit(self, source: str, *, file: str = "space.yaml", idempotency_key: str | None = None) -> JobView:
        """Submits a job; a broken connection is tried again with the same key, so it never makes two jobs."""
        call = calls.submit(source, file, idempotency_key)
        for attempt in range(self._retries + 1):
            try:
                return await self._do(call)
            except UnreachableError:
                if attempt == self._retries:
                    raise
                await asyncio.sleep(0.5 * 2**attempt)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def jobs(self, *, state: str | None = None, limit: int = 100, cursor: str | None = None) -> Page:
        """A page of ``JobView``, newest first."""
        return await self._do(calls.jobs(state, limit, cursor))

    async def job(self, job: str) -> JobView:
        """One job."""
        return await self._do(calls.job(job))

    async def space(self, job: str) -> dict[str, Any]:
        """A job's space as plain JSON, as it was resolved when it was submitted."""
        return await self._do(calls.space(job))

    async def trials(
        self,
        job: str,
        *,
        state: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        stage: str | None = None,
    ) -> Page:
        """A page of ``TrialView``, by number; of the stage that the job is at, or of the named one."""
        return await self._do(calls.trials(job, state, limit, cursor, stage))

    async def all_trials(
        self, job: str, *, state: str | None = None, stage: str | None = None
    ) -> AsyncIterator[TrialView]:
        """Every trial of a job, or of one of its stages, page after page."""
        cursor: str | None = None
        while True:
            page = await self.trials(job, state=state, limit=500, cursor=cursor, stage=stage)
            for trial in page.items:
                yield trial
            cursor = page.next
            if cursor is None:
                return

    async def trial(self, job: str, number: int, *, stage: str | None = None) -> TrialView:
        """One trial."""
        return await self._do(calls.trial(job, number, stage))

    async def curves(
        self,
        job: str,
        *,
        metrics: Sequence[str] = (),
        trials: Sequence[int] | None = None,
        max_points: int = 500,
        stage: str | None = None,
    ) -> list[CurveView]:
        """Curves of the named metrics (none named = all) and trials (``None`` = all)."""
        return await self._do(calls.curves(job, metrics, trials, max_points, stage))

    async def advice(self, job: str, *, trial: int | None = None, stage: str | None = None) -> list[AdviceView]:
        """What rules on curves find in the job's trials, or in one of them, each with a change to try."""
        return await self._do(calls.advice(job, trial, stage))

    async def best(self, job: str) -> BestView:
        """The best configuration with its evidence."""
        return await self._do(calls.best(job))

    async def export(self, job: str, *, to: str, trial: int | None = None, stage: str | None = None) -> ExportView:
        """A trial's configuration as something to run or to keep."""
        return await self._do(calls.export(job, to, trial, stage))

    async def events(self, job: str, *, after: int = 0, limit: int = 100) -> list[EventView]:
        """The job's record, oldest first, beginning after the event ``after``."""
        return await self._do(calls.events(job, after, limit))

    async def stream_events(self, job: str, *, after: int = 0, patience: float = 60.0) -> AsyncIterator[EventView]:
        """Follows the job's record as it is written, over broken connections, until the job has ended."""
        import httpx2

        headers = {"Accept": "text/event-stream"}
        wait = httpx2.Timeout(self._timeout, read=max(self._timeout, 45.0))
        loop = asyncio.get_running_loop()
        away_since: float | None = None
        while True:
            try:
                async with self._http.stream(
                    "GET",
                    f"{job_path(job)}/events",
                    headers={**headers, "Last-Event-ID": str(after)},
                    timeout=wait,
                ) as answer:
                    if not answer.is_success:
                        await answer.aread()
                        raise error_of(answer)
                    async for message in httpx2.EventSource(answer):
                        away_since = None
                        if message.event == "end":
                            return
                        if message.data:
                            event = values_of(EventView, [message.json()])[0]
                            yield event
                            after = event.id
            except (httpx2.TransportError, UnreachableError) as error:
                away_since = loop.time() if away_since is None else away_since
                if loop.time() - away_since >= patience:
                    if isinstance(error, UnreachableError):
                        raise
                    raise failure_of(self.base_url, self._timeout, error) from error
            await asyncio.sleep(_RECONNECT_S)

    async def logs(self, job: str, *, trial: int | None = None, tail: int = 200, stage: str | None = None) -> str:
        """The end of the driver's log, or of a trial's."""
        return await self._do(calls.logs(job, trial, tail, stage))

    async def report(self, job: str, *, form: str = "html") -> str:
        """The job's self-contained report as ``html``, ``markdown`` or ``json``."""
        return await self._do(calls.report(job, form))

    async def register(self, job: str, *, name: str | None = None) -> ModelVersionView:
        """The best trial's checkpoint as a model version in MLflow, under the job's name or another.

        Raises:
            ConflictError: If the checkpoint is not where the service is, or cannot be exported.
        """
        return await self._do(calls.register(job, name))

    async def pause(self, job: str) -> JobView:
        """Starts no new trials; the running ones go on."""
        return await self._do(calls.act(job, "pause"))

    async def resume(self, job: str) -> JobView:
        """Goes on with a job that was paused, interrupted, failed or cancelled."""
        return await self._do(calls.act(job, "resume"))

    async def stop(self, job: str) -> JobView:
        """Starts no new trials and lets the running ones finish."""
        return await self._do(calls.act(job, "stop"))

    async def cancel(self, job: str) -> JobView:
        """Ends the job's running trials now; they write a checkpoint first."""
        return await self._do(calls.act(job, "cancel"))

    async def edit(
        self,
        job: str,
        *,
        priority: int | None = None,
        budget: Mapping[str, Any] | None = None,
        search: Mapping[str, Any] | None = None,
        stage: str | None = None,
    ) -> JobView:
        """Changes what a job may spend, its place in the queue, or, while it is at rest, what it searches."""
        return await self._do(calls.edit(job, priority, budget, search, stage))

    async def enqueue(self, job: str, params: Mapping[str, Any]) -> EventView:
        """Lets a job run this configuration next."""
        return await self._do(calls.enqueue(job, params))

    async def spaces(self) -> list[SpaceView]:
        """The space files that ship with the service."""
        return await self._do(calls.spaces())

    async def me(self) -> CallerView:
        """Who the service takes us to be.

        Raises:
            UnauthenticatedError: If the token opens nothing.
        """
        return await self._do(calls.me())

    async def tokens(self) -> list[TokenView]:
        """All access tokens, without their secrets; for administrators."""
        return await self._do(calls.tokens())

    async def create_token(
        self, name: str, *, role: str = "viewer", team: str = "", expires_s: float | None = None
    ) -> IssuedTokenView:
        """Makes an access token, whose text is told this once; for administrators.

        Args:
            name: Whose it is.
            role: ``viewer``, ``operator`` or ``admin``.
            team: Whose jobs it may act on.
            expires_s: Seconds until it expires; ``None`` = never.
        """
        return await self._do(calls.create_token(name, role, team, expires_s))

    async def revoke_token(self, token_id: str) -> TokenView:
        """Takes an access token back; for administrators."""
        return await self._do(calls.revoke_token(token_id))

    async def teams(self) -> list[TeamView]:
        """The teams that have a quota or a share of their own; for administrators."""
        return await self._do(calls.teams())

    async def put_team(self, team: TeamView) -> TeamView:
        """Sets what a team may use; for administrators."""
        return await self._do(calls.put_team(team))

    async def ready(self) -> dict[str, str]:
        """Component -> ``ok``."""
        return await self._do(calls.ready())

    async def wait(self, job: str, *, timeout: float | None = None, poll: float = 1.0) -> JobView:
        """Waits until a job has ended well."""
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        while True:
            view = await self.job(job)
            if view.state in JOB_ENDS:
                check_succeeded(view)
                return view
            if end is not None and loop.time() >= end:
                raise waited_in_vain(view, timeout or 0.0)
            await asyncio.sleep(poll if end is None else max(0.0, min(poll, end - loop.time())))

    async def _do(self, call: Call[_T]) -> _T:
        import httpx2

        params = {name: value for name, value in call.query.items() if value is not None}
        patience = call.patience_s or self._timeout
        try:
            answer = await self._http.request(
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
