"""Optuna Dashboard behind our own routes, for looking only.

The dashboard serves absolute paths, so it cannot live under a prefix: it gets the paths below that no route of ours
took. None of what it offers besides GET is a read (its POST, PUT and DELETE routes create, rename, tell, comment on
and delete studies), so all of it is refused, except to an administrator who has shown a token.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autotune.access import Caller, Role
from autotune.api.results import REPORT_POLICY
from autotune.errors import NotAllowedError, NotFoundError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_FILES = "/artifacts/"
_FOLDERS = ("/dashboard/", "/api/", "/static/", "/csv/", _FILES)
_PAGES = frozenset({"/dashboard", "/favicon.ico", "/incompatible-rdb-schema"})
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class Dashboard:
    """The last route: Optuna Dashboard for its own paths, 404 for the rest.

    Args:
        storage_url: SQLAlchemy URL of the Optuna storage; ``None`` = no dashboard here.
        artifacts: Where the files beside the studies lie.
    """

    def __init__(self, storage_url: str | None, artifacts: Path) -> None:
        self._storage_url, self._artifacts = storage_url, artifacts
        self._app: ASGIApp | None = None
        self._lock = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one connection that no route of ours took."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        path: str = scope["path"]
        if not is_dashboard(path):
            raise HTTPException(404)
        caller: Caller = scope["state"]["caller"]
        if scope["method"] not in _READS and (caller.is_local or caller.role is not Role.ADMIN):
            raise NotAllowedError(
                f"Optuna Dashboard is read-only here: {scope['method']} {path} is refused.",
                hint="Jobs are changed through /v1/jobs or with the autotune command.",
            )
        if self._storage_url is None:
            raise NotFoundError("Optuna Dashboard is not served here.", hint="Start the service with: autotune serve")
        app = await run_sync(self._open, self._storage_url)
        await app(scope, receive, _guarded(send) if path.startswith(_FILES) else send)

    def _open(self, storage_url: str) -> ASGIApp:
        # Importing the dashboard takes seconds; whoever only uses the API never pays for it.
        with self._lock:
            if self._app is None:
                from a2wsgi import WSGIMiddleware
                from optuna_dashboard import wsgi

                from autotune.store.optuna_artifacts import open_files
                from autotune.store.optuna_storage import open_storage

                # Ours makes Optuna's tables where no job has been yet; the dashboard by itself would fail on them.
                shown = wsgi(open_storage(storage_url), artifact_store=open_files(self._artifacts))
                self._app = WSGIMiddleware(_errors_to_stderr(shown), workers=4)
            return self._app


def is_dashboard(path: str) -> bool:
    """Whether a path is the dashboard's, when no route of ours takes it."""
    return path in _PAGES or path.startswith(_FOLDERS)


def _guarded(send: Send) -> Send:
    """Files come from whoever may write them: as a page they get no more than the report's, and no other site them."""

    async def pass_on(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=list(message["headers"]))
            del headers["access-control-allow-origin"]
            headers["content-security-policy"] = f"{REPORT_POLICY}; sandbox allow-scripts"
            message = {**message, "headers": headers.raw}
        await send(message)

    return pass_on


def _errors_to_stderr(app: WSGIApplication) -> WSGIApplication:
    """The WSGI bridge points the error stream at stdout, which belongs to data."""

    def call(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ["wsgi.errors"] = sys.stderr
        return app(environ, start_response)

    return call
