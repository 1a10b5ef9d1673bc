"""What goes over the wire: the address, the values in an answer, and the errors in one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from autotune.errors import AutotuneError, NotAllowedError, NotFoundError, Problem, UnreachableError, UsageError
from autotune.views import Page

if TYPE_CHECKING:
    import httpx2
    from pydantic import TypeAdapter

DEFAULT_URL = "http://127.0.0.1:8765"

_T = TypeVar("_T")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_BY_STATUS: Mapping[int, type[AutotuneError]] = {
    400: UsageError,
    401: NotAllowedError,
    403: NotAllowedError,
    404: NotFoundError,
    405: UsageError,
    413: UsageError,
    415: UsageError,
    429: UnreachableError,
    502: UnreachableError,
    503: UnreachableError,
    504: UnreachableError,
}
_ADAPTERS: dict[type[object], TypeAdapter[Any]] = {}


def connection_options(base_url: str, timeout: float, token: str | None) -> dict[str, Any]:
    """What an httpx2 client of either kind is built with.

    Raises:
        UsageError: If ``base_url`` is no HTTP address, or a token would travel in clear to another machine.
    """
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"the service's address must look like http://host:port, got {base_url!r}.",
            hint=f"For a service on this machine: AUTOTUNE_URL={DEFAULT_URL}",
        )
    return {
        "base_url": base_url.rstrip("/"),
        "timeout": timeout,
        "headers": {"Authorization": f"Bearer {token}"} if token else {},
        # A proxy from the environment cannot reach this machine's own loopback address.
        "trust_env": parts.hostname not in _LOOPBACK,
    }


def value_of(kind: type[_T], answer: httpx2.Response) -> _T:
    """The one value of an answer."""
    return _adapter(kind).validate_python(json_of(answer))


def values_of(kind: type[_T], items: list[Any]) -> list[_T]:
    """Values that were in an answer."""
    return [_adapter(kind).validate_python(_with_nan(item)) for item in items]


def page_of(kind: type[Any], answer: httpx2.Response) -> Page:
    """A page of values."""
    body = json_of(answer)
    return Page(items=values_of(kind, body["items"]), next=body["next"])


def json_of(answer: httpx2.Response) -> Any:  # noqa: ANN401 - what JSON is
    """The JSON of an answer.

    Raises:
        UnreachableError: If something else answered than a service of ours.
    """
    if not answer.headers.get("content-type", "").startswith("application/json"):
        raise UnreachableError(
            f"{answer.url} answered with {answer.headers.get('content-type', 'nothing')!r} instead of JSON.",
            hint="Is this the address of an autotune service?",
        )
    return _with_nan(answer.json())


def error_of(answer: httpx2.Response) -> AutotuneError:
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


def failure_of(base_url: str, timeout: float, error: httpx2.TransportError) -> UnreachableError:
    """The error for a connection that failed or stayed silent."""
    import httpx2

    if isinstance(error, httpx2.TimeoutException):
        return UnreachableError(
            f"the service at {base_url} did not answer within {timeout:g} s.",
            hint="Is the machine overloaded? Look at the service's log.",
        )
    return UnreachableError(
        f"the service at {base_url} cannot be reached: {error}.",
        hint="Start it with `autotune serve`, or unset AUTOTUNE_URL to run embedded.",
    )


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
