"""Errors on the wire: RFC 9457 ``application/problem+json`` with our ``code``, ``hint`` and single ``problems``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from autotune.errors import AutotuneError, Problem, UsageError

MEDIA_TYPE = "application/problem+json"

_HTTP_CODES = {
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ProblemDetails:
    """An error as the API answers it (RFC 9457).

    Attributes:
        type: A URI that names the kind of error; ``code`` is its last part.
        detail: What happened, the value got and what is allowed.
        instance: The path of the request.
        code: Stable name of the kind of error, for programs.
        hint: The next thing to do; empty when there is none.
        problems: The single problems, with file, line and column where they have one.
        request_id: The same as the ``X-Request-ID`` header; the service's log carries it.
    """

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    hint: str = ""
    problems: list[Problem] = field(default_factory=list)
    request_id: str = ""


@cache
def _adapter() -> TypeAdapter[ProblemDetails]:
    return TypeAdapter(ProblemDetails)


def problem_response(
    *,
    status: int,
    code: str,
    detail: str,
    path: str,
    request_id: str,
    hint: str = "",
    problems: Sequence[Problem] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Builds the answer for an error."""
    body = ProblemDetails(
        type=f"urn:autotune:error:{code}",
        title=code.replace("_", " ").capitalize(),
        status=status,
        detail=detail,
        instance=path,
        code=code,
        hint=hint,
        problems=list(problems),
        request_id=request_id,
    )
    return Response(_adapter().dump_json(body), status_code=status, headers=headers, media_type=MEDIA_TYPE)


def error_response(error: AutotuneError, *, path: str, request_id: str) -> Response:
    """Builds the answer for one of our own errors."""
    return problem_response(
        status=error.status,
        code=error.code,
        detail=error.message,
        path=path,
        request_id=request_id,
        hint=error.hint,
        problems=error.problems,
    )


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of a route for OpenAPI: the named error statuses, and the same shape for any other."""
    shape = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    found: dict[int | str, dict[str, Any]] = {
        status: {"description": HTTPStatus(status).phrase, "content": shape} for status in statuses
    }
    found["default"] = {"description": "Any other error", "content": shape}
    return found


def request_id_of(request: Request) -> str:
    """The identity that the outermost middleware gave this request."""
    return str(getattr(request.state, "request_id", ""))


def install_handlers(app: FastAPI) -> None:
    """Makes the application answer every foreseen error as problem+json."""
    app.add_exception_handler(AutotuneError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


async def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, AutotuneError)
    return error_response(error, path=request.url.path, request_id=request_id_of(request))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = [
        Problem(
            path=".".join(str(part) for part in item["loc"]),
            message=f"{item['msg'].removeprefix('Value error, ')}, got {item.get('input')!r}.",
        )
        for item in error.errors()
    ]
    usage = UsageError(
        "the request is not usable: " + " ".join(str(problem) for problem in problems),
        hint="The parameters of every route are described at /docs.",
        problems=problems,
    )
    return error_response(usage, path=request.url.path, request_id=request_id_of(request))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail, hint = str(error.detail), ""
    headers = error.headers
    if error.status_code == 404 and detail == "Not Found":
        detail = f"there is nothing at {request.url.path}."
        hint = "The routes are listed at /docs."
    elif error.status_code == 405:
        # Starlette names the methods of one route only; several routes may share the path.
        routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
        allowed = ", ".join(sorted({method for route in routes for method in getattr(route, "methods", ())}))
        headers = {"Allow": allowed}
        detail = f"{request.method} is not possible at {request.url.path}; allowed: {allowed}."
    return problem_response(
        status=error.status_code,
        code=_HTTP_CODES.get(error.status_code, f"http_{error.status_code}"),
        detail=detail,
        path=request.url.path,
        request_id=request_id_of(request),
        hint=hint,
        headers=headers,
    )
