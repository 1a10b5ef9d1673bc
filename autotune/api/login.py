"""Logging in with a browser: a form that takes a token and keeps it in a cookie no script can read."""

from __future__ import annotations

from html import escape
from typing import Annotated
from urllib.parse import parse_qs, quote

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from autotune.api.context import service_of
from autotune.api.door import COOKIE
from autotune.errors import UnauthenticatedError

router = APIRouter(include_in_schema=False)

_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_KEPT_S = 30 * 24 * 3600
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>autotune: log in</title>
<link rel="icon" href="/web/icon.svg" type="image/svg+xml"><link rel="stylesheet" href="/web/style.css"></head>
<body><main><h1>autotune</h1>{problem}
<form method="post" action="/login?next={next}">
<div class="fields"><label><span>Your access token</span>
<input name="token" type="password" autocomplete="current-password" required autofocus></label></div>
<div class="buttons"><button type="submit">Log in</button></div></form>
<p class="quiet-text">An administrator gives out tokens with <code>autotune token create</code>.</p>
</main></body></html>"""

Next = Annotated[str, Query(max_length=1024)]


@router.get("/login")
def form(next: Next = "/") -> Response:  # noqa: A002 - the name that browsers keep
    """Shows the form."""
    return _form(next, "")


@router.post("/login")
async def login(request: Request, next: Next = "/") -> Response:  # noqa: A002
    """Takes a token; a right one opens the page that was asked for."""
    fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=4)
    token = (fields.get("token") or [""])[0].strip()
    try:
        await run_sync(service_of(request).access.let_in, token)
    except UnauthenticatedError as error:
        return _form(next, error.message)
    answer = RedirectResponse(_inside(next), status_code=303)
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, token, max_age=_KEPT_S, httponly=True, samesite="strict", secure=secure, path="/")
    return answer


@router.post("/logout")
def logout() -> Response:
    """Forgets the token."""
    answer = RedirectResponse("/login", status_code=303)
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return answer


def _form(wanted: str, problem: str) -> Response:
    shown = f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else ""
    page = _PAGE.format(problem=shown, next=quote(_inside(wanted), safe=""))
    headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-store"}
    return HTMLResponse(page, status_code=401 if problem else 200, headers=headers)


def _inside(wanted: str) -> str:
    """The page that was asked for, if it is one of ours."""
    # A path that begins with two slashes, or a slash and a backslash, is another host to a browser.
    ours = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return wanted if ours else "/"
