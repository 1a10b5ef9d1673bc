"""The Python SDK: every use case of the service over HTTP, typed, with the very errors the service raised.

Example:
    >>> with Client("http://127.0.0.1:8765") as client:  # doctest: +SKIP
    ...     job = client.submit(Path("space.yaml").read_text(), file="space.yaml")
    ...     client.wait(job.id)
    ...     print(client.best(job.id).overrides)
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

from autotune.clock import Clock, SystemClock
from autotune.errors import (
    AutotuneError,
    JobFailedError,
    NotAllowedError,
    NotFoundError,
    Problem,
    UnreachableError,
    UsageError,
    WaitTimeoutError,
)
from autotune.states import JOB_ENDS, JobState, TrialState
from autotune.views import (
    BestView,
    CurveView,
    EventView,
    JobView,
    Page,
    PlanView,
    SpaceView,
    TrialView,
)

if TYPE_CHECKING:
    import httpx2
    from pydantic import TypeAdapter

DEFAULT_URL = "http://127.0.0.1:8765"

_RECONNECT_S = 1.0

_T = TypeVar("_T")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_BY_STATUS: Mapping[int, type[AutotuneError]] = {
    400: UsageError,
    403: NotAllowedError,
    404: NotFoundError,
    405: UsageError,
    413: UsageError,
    415: UsageError,
    502: UnreachableError,
    503: UnreachableError,
    504: UnreachableError,
}


class Client:
    """Talks to one service.

    Args:
        base_url: The service's address, with its scheme.
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
        transport: httpx2.BaseTransport | None = None,
        timeout: float = 30.0,
        retries: int = 3,
        clock: Clock | None = None,
    ) -> None:
        import httpx2

        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                f"the service's address must look like http://host:port, got {base_url!r}.",
                hint=f"For a service on this machine: AUTOTUNE_URL={DEFAULT_URL}",
            )
        self.base_url = base_url.rstrip("/")
        self._timeout = timeout
        self._retries = retries
        self._clock = clock or SystemClock()
        # A proxy from the environment cannot reach this machine's own loopback address.
        self._http = httpx2.Client(
            base_url=self.base_url,
            transport=transport,
            timeout=timeout,
            trust_env=parts.hostname not in _LOOPBACK,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def plan(self, source: str, *, file: str = "space.yaml") -> PlanView:
        """Says what a space would do; nothing is stored.

        Args:
            source: The text of the space file, YAML or JSON.
            file: Its name, for messages with line numbers.

        Raises:
            InvalidSpaceError: With every problem of the space.
        """
        return self._one(PlanView, self._send_space("/v1/plan", source, file, {}))

    def submit(self, source: str, *, file: str = "space.yaml", idempotency_key: str | None = None) -> JobView:
        """Submits a job. A broken connection is tried again with the same key, so it never makes two jobs.

        Raises:
            InvalidSpaceError: With every problem of the space; nothing was stored.
            ConflictError: If the key was used for another space, or the job contradicts the present state.
            UnreachableError: If the service does not answer after all retries.
        """
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        for attempt in range(self._retries + 1):
            try:
                return self._one(JobView, self._send_space("/v1/jobs", source, file, headers))
            except UnreachableError:
                if attempt == self._retries:
                    raise
                self._clock.sleep(0.5 * 2**attempt)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def jobs(self, *, state: str | None = None, limit: int = 100, cursor: str | None = None) -> Page:
        """A page of ``JobView``, newest first."""
        return self._page(JobView, "/v1/jobs", {"state": state, "limit": limit, "cursor": cursor})

    def job(self, job: str) -> JobView:
        """One job.

        Raises:
            NotFoundError: If there is no such job.
        """
        return self._one(JobView, self._get(_path(job)))

    def trials(self, job: str, *, state: str | None = None, limit: int = 100, cursor: str | None = None) -> Page:
        """A page of ``TrialView``, by number."""
        return self._page(TrialView, f"{_path(job)}/trials", {"state": state, "limit": limit, "cursor": cursor})

    def all_trials(self, job: str, *, state: str | None = None) -> Iterator[TrialView]:
        """Every trial of a job, page after page."""
        cursor: str | None = None
        while True:
            page = self.trials(job, state=state, limit=500, cursor=cursor)
            yield from page.items
            cursor = page.next
            if cursor is None:
                return

    def trial(self, job: str, number: int) -> TrialView:
        """One trial.

        Raises:
            NotFoundError: If there is no such job or trial.
        """
        return self._one(TrialView, self._get(f"{_path(job)}/trials/{number}"))

    def curves(
        self,
        job: str,
        *,
        metrics: Sequence[str] = (),
        trials: Sequence[int] | None = None,
        max_points: int = 500,
    ) -> list[CurveView]:
        """Curves of the named metrics (none named = all) and trials (``None`` = all)."""
        query = {"metric": list(metrics), "trial": trials, "max_points": max_points}
        return self._many(CurveView, self._get(f"{_path(job)}/curves", query).json())

    def best(self, job: str) -> BestView:
        """The best configuration with its evidence.

        Raises:
            NotFoundError: If no trial has completed within the constraints.
        """
        return self._one(BestView, self._get(f"{_path(job)}/best"))

    def events(self, job: str, *, after: int = 0, limit: int = 100) -> list[EventView]:
        """The job's record, oldest first, beginning after the event ``after``."""
        return self._many(EventView, self._get(f"{_path(job)}/events", {"after": after, "limit": limit}).json())

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
                for message in self._messages(f"{_path(job)}/events", after):
                    away_since = None
                    if message.event == "end":
                        return
                    if message.data:
                        event = self._many(EventView, [message.json()])[0]
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
                    raise _error_of(answer)
                yield from httpx2.EventSource(answer)
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error

    def logs(self, job: str, *, trial: int | None = None, tail: int = 200) -> str:
        """The end of the driver's log, or of a trial's."""
        return self._get(f"{_path(job)}/logs", {"trial": trial, "tail": tail}).text

    def report(self, job: str) -> str:
        """The job's self-contained HTML report."""
        return self._get(f"{_path(job)}/report").text

    def cancel(self, job: str) -> JobView:
        """Ends the job's running trials now; they write a checkpoint first."""
        return self._one(JobView, self._call("POST", f"{_path(job)}/cancel"))

    def resume(self, job: str) -> JobView:
        """Queues a job again that was interrupted, failed or cancelled."""
        return self._one(JobView, self._call("POST", f"{_path(job)}/resume"))

    def spaces(self) -> list[SpaceView]:
        """The space files that ship with the service."""
        return self._many(SpaceView, self._get("/v1/spaces").json())

    def ready(self) -> dict[str, str]:
        """Component -> ``ok``.

        Raises:
            UnreachableError: With one problem for each component that does not work.
        """
        components: dict[str, str] = self._get("/readyz").json()["components"]
        return components

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
                raise WaitTimeoutError(
                    f"job {job!r} is still {view.state} after {timeout:g} s; it goes on.",
                    hint=f"Look at it with: autotune show {job}",
                )
            self._clock.sleep(poll if end is None else max(0.0, min(poll, end - self._clock.now())))

    def _send_space(self, path: str, source: str, file: str, headers: Mapping[str, str]) -> httpx2.Response:
        kind = "application/json" if file.endswith(".json") else "application/yaml"
        return self._call(
            "POST", path, {"file": file}, content=source.encode(), headers={"Content-Type": kind, **headers}
        )

    def _get(self, path: str, query: Mapping[str, Any] | None = None) -> httpx2.Response:
        return self._call("GET", path, query)

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        import httpx2

        params = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            answer = self._http.request(method, path, params=params, content=content, headers=headers)
        except httpx2.TimeoutException as error:
            raise UnreachableError(
                f"the service at {self.base_url} did not answer within {self._timeout:g} s.",
                hint="Is the machine overloaded? Look at the service's log.",
            ) from error
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error
        if not answer.is_success:
            raise _error_of(answer)
        return answer

    def _unreachable(self, error: httpx2.TransportError) -> UnreachableError:
        return UnreachableError(
            f"the service at {self.base_url} cannot be reached: {error}.",
            hint="Start it with `autotune serve`, or unset AUTOTUNE_URL to run embedded.",
        )

    def _one(self, kind: type[_T], answer: httpx2.Response) -> _T:
        return _adapter(kind).validate_python(self._json(answer))

    def _many(self, kind: type[_T], items: list[Any]) -> list[_T]:
        return [_adapter(kind).validate_python(_with_nan(item)) for item in items]

    def _page(self, kind: type[Any], path: str, query: Mapping[str, Any]) -> Page:
        body = self._json(self._get(path, query))
        return Page(items=self._many(kind, body["items"]), next=body["next"])

    def _json(self, answer: httpx2.Response) -> Any:  # noqa: ANN401 - what JSON is
        if not answer.headers.get("content-type", "").startswith("application/json"):
            raise UnreachableError(
                f"{answer.url} answered with {answer.headers.get('content-type', 'nothing')!r} instead of JSON.",
                hint="Is this the address of an autotune service?",
            )
        return _with_nan(answer.json())


def check_succeeded(job: JobView) -> None:
    """Refuses a job that has no result to end with.

    Raises:
        JobFailedError: If the job failed, was cancelled, has not ended, or not one of its trials completed.
    """
    hint = f"Look at why with: autotune show {job.id} and autotune logs {job.id}"
    if job.state == JobState.FAILED:
        why, fix = (job.error.message, job.error.hint) if job.error else ("no reason was recorded.", "")
        raise JobFailedError(f"job {job.id!r} failed: {why}", hint=fix or hint)
    if job.state == JobState.CANCELLED:
        raise JobFailedError(f"job {job.id!r} was cancelled.", hint=f"Go on with it: autotune launch --resume {job.id}")
    if job.state not in JOB_ENDS:
        raise JobFailedError(
            f"job {job.id!r} was left before its end: it is {job.state}.",
            hint=f"Go on with it: autotune launch --resume {job.id}",
        )
    if not job.trials.get(TrialState.COMPLETED, 0):
        counts = ", ".join(f"{count} {state}" for state, count in job.trials.items() if count) or "none ran"
        raise JobFailedError(f"not one trial of job {job.id!r} completed ({counts}).", hint=hint)


def _path(job: str) -> str:
    if not job:
        raise UsageError("a job's id is missing.", hint="List the jobs with: autotune jobs")
    return f"/v1/jobs/{quote(job, safe='')}"


_ADAPTERS: dict[type[object], TypeAdapter[Any]] = {}


def _adapter(kind: type[_T]) -> TypeAdapter[_T]:
    if kind not in _ADAPTERS:
        from pydantic import TypeAdapter

        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


@cache
def _classes() -> dict[str, type[AutotuneError]]:
    found = {AutotuneError.code: AutotuneError}
    rest = [AutotuneError]
    while rest:
        for kind in rest.pop().__subclasses__():
            found.setdefault(kind.code, kind)
            rest.append(kind)
    return found


def _error_of(answer: httpx2.Response) -> AutotuneError:
    """Rebuilds the exception that the service raised."""
    if not answer.headers.get("content-type", "").startswith("application/problem+json"):
        kind = _BY_STATUS.get(answer.status_code, AutotuneError)
        return kind(
            f"{answer.request.method} {answer.url} answered {answer.status_code} {answer.reason_phrase}.",
            hint="Is this the address of an autotune service?",
        )
    body = answer.json()
    kind = _classes().get(body.get("code", ""), _BY_STATUS.get(answer.status_code, AutotuneError))
    problems = [Problem(**problem) for problem in body.get("problems", [])]
    return kind(body.get("detail", ""), hint=body.get("hint", ""), problems=problems)


def _with_nan(item: Any) -> Any:  # noqa: ANN401 - what JSON is
    """JSON has no NaN: the wire says ``null``, which these two tables of plain numbers cannot hold."""
    if isinstance(item, dict):
        return {
            name: {key: float("nan") if number is None else number for key, number in value.items()}
            if name in ("violations", "numbers") and isinstance(value, dict)
            else _with_nan(value)
            for name, value in item.items()
        }
    if isinstance(item, list):
        return [_with_nan(value) for value in item]
    return item
