"""Who may come in: the middleware that finds out who asks, before any route is reached.

While no token was ever given out, whoever reaches the service on a loopback name owns the machine (`LoopbackGuard`).
From the first token on every request needs one, in the ``Authorization`` header or, for browsers, in a cookie.
"""

from __future__ import annotations

from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, quote

from anyio.to_thread import run_sync
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from autotune.access import LOCAL, Caller, Role
from autotune.api.middleware import foreign_page, loopback_refusal
from autotune.api.pace import Pace
from autotune.api.port import AccessPort
from autotune.api.problems import error_response
from autotune.errors import AutotuneError, TooManyRequestsError, UnauthenticatedError, UsageError

COOKIE = "autotune_token"
_OPEN = frozenset({"/livez", "/login", "/web/style.css", "/web/icon.svg"})
"""What a person sees before logging in, and what a load balancer asks; none of it tells anything."""
_SECRETS = frozenset({"token", "access_token", "api_key", "authorization", COOKIE})


class Door:
    """Lets in who may come in, and tells the routes who it is (``scope["state"]["caller"]``).

    Args:
        app: What is behind the door.
        access: Knows the tokens; ``None`` = this process talks to itself, and everybody owns the machine.
        pace: How often one caller may ask.
    """

    def __init__(self, app: ASGIApp, access: Callable[[], AccessPort] | None, pace: Pace) -> None:
        self.app = app
        self.access = access
        self.pace = pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            if "\x00" in scope["path"] or b"%00" in scope["query_string"] or b"\x00" in scope["query_string"]:
                raise UsageError("an address holds no NUL character.", hint="Look at how the address was put together.")
            caller = await self._caller(scope, headers)
            if not caller.is_local:
                self.pace.take(caller.token if caller is not _ANYBODY else _address(scope))
        except AutotuneError as error:
            await self._refuse(error, scope, headers)(scope, receive, send)
            return
        scope["state"]["caller"] = caller
        await self.app(scope, receive, send)

    def _refuse(self, error: AutotuneError, scope: Scope, headers: Headers) -> Response:
        if isinstance(error, UnauthenticatedError):
            try:
                self.pace.take(_address(scope))
            except TooManyRequestsError as too_many:
                error = too_many
        browser = scope["method"] == "GET" and "text/html" in headers.get("accept", "")
        if isinstance(error, UnauthenticatedError) and browser:
            return RedirectResponse(f"/login?next={quote(scope['path'], safe='/')}", status_code=303)
        answer = error_response(error, path=scope["path"], request_id=scope["state"]["request_id"])
        if isinstance(error, UnauthenticatedError):
            answer.headers["WWW-Authenticate"] = "Bearer"
        if isinstance(error, TooManyRequestsError):
            answer.headers["Retry-After"] = str(error.wait_s)
        return answer

    async def _caller(self, scope: Scope, headers: Headers) -> Caller:
        if self.access is None:
            return _on_loopback(scope, headers)
        names = {name.lower() for name, _ in parse_qsl(scope["query_string"].decode("latin-1"))}
        if names & _SECRETS:
            raise UsageError(
                "a token does not belong into an address: logs and browsers keep those.",
                hint="Send the header `Authorization: Bearer TOKEN`. Revoke this token: it has been seen.",
            )
        access = self.access()
        if not await run_sync(access.shut):
            return _on_loopback(scope, headers)
        if scope["path"] in _OPEN:
            refusal = foreign_page(headers, scope["method"])
            if refusal is not None:
                raise refusal
            return _ANYBODY
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return await run_sync(access.let_in, bearer.strip())
        if scheme:
            raise UnauthenticatedError(f"got an Authorization header of the scheme {scheme!r}; allowed is Bearer.")
        cookie = _cookie(headers.get("cookie", ""))
        if cookie:
            # A browser sends the cookie by itself, also for a page of somebody else.
            refusal = foreign_page(headers, scope["method"])
            if refusal is not None:
                raise refusal
        return await run_sync(access.let_in, cookie)


_ANYBODY = Caller(name="anybody", role=Role.VIEWER, token="-")
"""Somebody at the form; the open paths tell nothing, so no more need be known."""


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return f"address {client[0] if client else 'unknown'}"


def _on_loopback(scope: Scope, headers: Headers) -> Caller:
    refusal = loopback_refusal(headers, scope["method"])
    if refusal is not None:
        raise refusal
    return LOCAL


def _cookie(text: str) -> str | None:
    try:
        morsel = SimpleCookie(text).get(COOKIE)
    except CookieError:
        return None
    return None if morsel is None else morsel.value
