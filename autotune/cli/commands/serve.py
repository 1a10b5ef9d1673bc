"""``autotune serve``: the service on a port, with its queue, its dashboard and its API."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.errors import ConflictError, NotAllowedError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from autotune.service import Supervisor
    from autotune.settings import Settings


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(serve)


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; any but loopback needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 = any free one.")] = 8765,
    as_json: Annotated[bool, typer.Option("--json", help="Print the addresses as one JSON document.")] = False,
) -> None:
    """Run the service until Ctrl-C: queue, REST API, Optuna Dashboard."""
    from autotune.api.middleware import is_loopback
    from autotune.cli.connect import log_to
    from autotune.cli.output import print_json, say
    from autotune.settings import load_settings

    settings = load_settings()
    settings.prepare_home()
    if not is_loopback(host):
        require_tokens(settings, host)
    with listen(host, port) as listener:
        log_to(settings, service=True)
        app = application(settings)
        url = address(host, listener)
        if as_json:
            print_json({"url": url, "dashboard": f"{url}/dashboard", "api": f"{url}/docs", "home": settings.root})
        say(f"autotune listens at {url} (Optuna Dashboard: {url}/dashboard, API: {url}/docs); Ctrl-C stops it")
        say(f"use it with: export AUTOTUNE_URL={url}")
        run(app, listener)


def application(settings: Settings) -> FastAPI:
    """The service as an application whose supervisor works as long as it is served.

    Raises:
        ConflictError: If another service runs on the same SQLite database.
    """
    from autotune.api import create_app
    from autotune.service import Supervisor, open_service
    from autotune.service.single import hold_alone

    held = hold_alone(settings)
    service = open_service(settings)
    service.ping()
    app = create_app(
        service,
        settings,
        dashboard_storage_url=settings.study_database,
        lifespan=lambda _: _Running(Supervisor(service, settings)),
    )
    app.state.held = held  # until the process ends
    return app


def address(host: str, listener: socket.socket) -> str:
    """Where a browser finds what listens."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"


def require_tokens(settings: Settings, host: str) -> None:
    """Refuses an address that others can reach while everybody who reaches the service may do everything.

    Raises:
        NotAllowedError: If no token was ever given out.
    """
    from autotune.service import open_service

    if not open_service(settings).access.shut():
        raise NotAllowedError(
            f"nobody needs a token yet, so the service listens on loopback addresses only; got {host!r}.",
            hint="Make yourself one first: autotune token create YOUR_NAME --role admin. Or leave out --host, and "
            "reach it from another machine with: ssh -L 8765:127.0.0.1:8765 THIS_MACHINE",
        )


def listen(host: str, port: int, *, command: str = "serve") -> socket.socket:
    """Takes a port; ``command`` is the one that the message about a taken one names.

    Raises:
        ConflictError: If another process has it.
        NotAllowedError: If the system does not let us.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    # A port whose last connections are just closing is free all the same.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except PermissionError as error:
        listener.close()
        raise NotAllowedError(
            f"port {port} may not be used: {error.strerror}.", hint="Choose a port above 1023 with --port."
        ) from error
    except OSError as error:
        listener.close()
        raise ConflictError(
            f"cannot listen on {host}:{port}: {error.strerror}.",
            hint=f"Is `autotune serve` running already? Then set AUTOTUNE_URL=http://{host}:{port}. "
            f"Else choose another port: autotune {command} --port {port + 1 if port < 65535 else 8765}",
        ) from error
    return listener


def run(app: FastAPI, listener: socket.socket) -> None:
    """Serves until a signal ends it.

    Raises:
        ConflictError: If the service could not be started.
    """
    import uvicorn

    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", server_header=False)
    server = uvicorn.Server(config)
    server.run(sockets=[listener])
    if not server.started:
        raise ConflictError("the service did not start.", hint="See why with: autotune --debug serve")


class _Running:
    """Keeps the supervisor at work as long as the application lives."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    async def __aenter__(self) -> None:
        from anyio.to_thread import run_sync

        await run_sync(self._supervisor.start)

    async def __aexit__(self, *_: object) -> None:
        from anyio.to_thread import run_sync

        await run_sync(self._supervisor.stop)
