"""What happens around every request: its identity, the last catch, who may ask, and how much may be sent.

Plain ASGI, because Starlette's ``BaseHTTPMiddleware`` buffers streams and hides exceptions' tracebacks.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autotune import logs
from autotune.access import Caller
from autotune.api.problems import problem_response
from autotune.errors import NotAllowedError

logger = logging.getLogger("autotune.api")
access_log = logging.getLogger("autotune.access")

MAX_BODY_BYTES = 1024 * 1024
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "SAMEORIGIN"}


class RequestIdentity:
    """Gives each request an id, and turns what nobody caught into a 500 that tells nothing about the inside."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        wanted = Headers(scope=scope).get("x-request-id", "")
        request_id = wanted if _REQUEST_ID.fullmatch(wanted) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        began, started, status = time.perf_counter(), False, 500

        async def send_marked(message: Message) -> None:
            nonlocal started, status
            if message["type"] == "http.response.start":
                started, status = True, message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        with logs.about(request_id=request_id):
            try:
                await self._answer(scope, receive, send_marked, lambda: started)
            finally:
                _log_request(scope, status, time.perf_counter() - began)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, started: Callable[[], bool]) -> None:
        request_id = scope["state"]["request_id"]
        try:
            await self.app(scope, receive, send)
        except Exception:
            logger.exception("request %s failed: %s %s", request_id, scope["method"], scope["path"])
            if started():
                raise
            response = problem_response(
                status=500,
                code="internal",
                detail="the service failed on this request; this is a defect of autotune.",
                path=scope["path"],
                request_id=request_id,
                hint=f"The service's log tells more about request {request_id}.",
            )
            await response(scope, receive, send)


def _log_request(scope: Scope, status: int, seconds: float) -> None:
    """One line for each answer: never the query, which may hold what people should not have written there."""
    if not access_log.isEnabledFor(logging.INFO):
        return
    caller = scope["state"].get("caller")
    who = f"{caller.name} ({caller.token})" if isinstance(caller, Caller) and caller.token else None
    fields = {
        "method": scope["method"],
        "route": getattr(scope.get("route"), "path", None),
        "status": status,
        "ms": round(1000 * seconds, 1),
        "caller": who,
    }
    access_log.info("%s %s %d", scope["method"], scope["path"], status, extra=fields)


def loopback_refusal(headers: Headers, method: str) -> NotAllowedError | None:
    """Why a request is not for whoever owns this machine, or ``None``.

    Without authentication two things must not happen: a web page whose name was rebound to 127.0.0.1 reads the
    service (its ``Host`` header gives it away), and a foreign page sends a request that changes something.
    """
    host = headers.get("host", "")
    if not is_loopback(_hostname(f"//{host}")):
        return NotAllowedError(
            f"this service answers on loopback names only, got the Host header {host!r}.",
            hint="Use http://127.0.0.1:PORT or http://localhost:PORT, through an SSH tunnel from another machine; "
            "or let its administrator give out tokens: autotune token create.",
        )
    return foreign_page(headers, method)


def foreign_page(headers: Headers, method: str) -> NotAllowedError | None:
    """Why a request that changes something comes from another site's page, or ``None``.

    The ``Origin`` header gives it away; a plain form needs no permission from the browser.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    foreign = origin is not None and origin not in (f"http://{host}", f"https://{host}")
    if method not in _SAFE_METHODS and (foreign or headers.get("sec-fetch-site") == "cross-site"):
        return NotAllowedError(
            f"a page of {origin or 'another site'} may not change anything here.",
            hint="Use the command line, the Python client, or the pages of the service itself.",
        )
    return None


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Whether this name or address can only mean the machine itself."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class BodyLimit:
    """Refuses bodies above a size, whether they announce it or not."""

    def __init__(self, app: ASGIApp, limit: int = MAX_BODY_BYTES) -> None:
        self.app = app
        self.limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "0")
        if not announced.isdigit() or int(announced) > self.limit:
            response = problem_response(
                status=413,
                code="too_large",
                detail=self._text(announced),
                path=scope["path"],
                request_id=scope["state"]["request_id"],
            )
            await response(scope, receive, send)
            return
        seen = 0

        async def receive_counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.limit:
                raise HTTPException(413, self._text(f"more than {self.limit}"))
            return message

        await self.app(scope, receive_counted, send)

    def _text(self, got: str) -> str:
        return f"the body is too large: got {got} bytes, allowed are {self.limit}."
