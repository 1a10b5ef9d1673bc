"""What every route shares: the service behind it, the parameters of lists, and the space in a request's body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Header, Path, Query, Request
from starlette.exceptions import HTTPException

from autotune.access import Caller
from autotune.api.feed import Feed
from autotune.api.port import ServicePort
from autotune.errors import UsageError
from autotune.views import JobView, TrialView

_JSON = frozenset({"application/json"})
_YAML = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/plain"})

SPACE_BODY = {
    "requestBody": {
        "required": True,
        "description": "A space file, as YAML or as JSON.",
        "content": {
            "application/yaml": {"schema": {"type": "string"}},
            "application/json": {"schema": {"type": "object"}},
        },
    }
}
"""OpenAPI's description of a route that takes a space file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPage:
    """Part of the list of jobs; ``next`` is the cursor of the following part."""

    items: list[JobView]
    next: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialPage:
    """Part of a job's trials; ``next`` is the cursor of the following part."""

    items: list[TrialView]
    next: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SpaceSource:
    """The text of a space file and the name its messages use."""

    text: str
    file: str


def caller_of(request: Request) -> Caller:
    """Who asks, as the door has found out."""
    return cast(Caller, request.state.caller)


def service_of(request: Request) -> ServicePort:
    """The service that this application was created over, asked by whoever asks."""
    return cast(ServicePort, request.app.state.service).as_caller(caller_of(request))


def feed_of(request: Request) -> Feed:
    """The news that everybody who follows a job shares."""
    return cast(Feed, request.app.state.feed)


async def space_source(
    request: Request,
    file: Annotated[str, Query(max_length=1024, description="The file's name, for messages with line numbers.")] = "",
) -> SpaceSource:
    """Reads a space file from the body.

    Raises:
        UsageError: If the body is empty or not UTF-8.
        HTTPException: If the body says that it is neither YAML nor JSON.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind and kind not in _JSON | _YAML:
        raise HTTPException(
            415, f"the body must be YAML or JSON, got {kind!r}; allowed: {', '.join(sorted(_JSON | _YAML))}."
        )
    raw = await request.body()
    if not raw.strip():
        raise UsageError("the body is empty; a space file was expected.", hint="Send the YAML or JSON text itself.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the body is not UTF-8: {error.reason} at byte {error.start}.", hint="Save the space file as UTF-8."
        ) from error
    return SpaceSource(text=text, file=file or ("space.json" if kind in _JSON else "space.yaml"))


Asker = Annotated[Caller, Depends(caller_of)]
Service = Annotated[ServicePort, Depends(service_of)]
News = Annotated[Feed, Depends(feed_of)]
Source = Annotated[SpaceSource, Depends(space_source)]
JobId = Annotated[str, Path(description="The job's id, for example quickstart-1.", max_length=200)]
MAX_NUMBER = 2**31 - 1
"""What a database can compare with a trial's number."""
Limit = Annotated[int, Query(ge=1, le=500, description="Largest number of items.")]
Cursor = Annotated[str | None, Query(max_length=1024, description="The `next` of the page before.")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="The same key again returns the first job instead of a second one.",
    ),
]
