"""``autotune up``: the service with its dashboard, and MLflow's own pages beside it, with one command."""

from __future__ import annotations

import contextlib
import signal
import sys
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(up)


def up(
    host: Annotated[str, typer.Option(help="Address of the service; any but loopback needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the service; 0 = any free one.")] = 8765,
    mlflow_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of MLflow; 0 = any free one.")] = 5000,
    as_json: Annotated[bool, typer.Option("--json", help="Print the addresses as one JSON document.")] = False,
) -> None:
    """Run the service, Optuna Dashboard and MLflow together until Ctrl-C.

    MLflow asks for no token and is served on 127.0.0.1 only; with AUTOTUNE_MLFLOW_URI at a server, that one is named.
    """
    from autotune.api.middleware import is_loopback
    from autotune.cli.commands.serve import address, application, listen, require_tokens, run
    from autotune.cli.connect import log_to
    from autotune.cli.mlflow_server import MlflowServer, served_elsewhere
    from autotune.cli.output import data, print_json, say
    from autotune.settings import load_settings

    settings = load_settings()
    settings.prepare_home()
    if not is_loopback(host):
        require_tokens(settings, host)
    # A stop by the system is one by hand: everything that was started is ended on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with listen(host, port, command="up") as listener, contextlib.ExitStack() as stack:
        log_to(settings, service=True)
        url, mlflow = address(host, listener), served_elsewhere(settings)
        server = None if mlflow else stack.enter_context(MlflowServer(settings, mlflow_port))
        app = application(settings)
        if server is not None:
            server.wait_until_ready()
            server.tell_when_it_ends()
        found = {"url": url, "dashboard": f"{url}/dashboard", "mlflow": mlflow or (server and server.url)}
        if as_json:
            print_json({**found, "api": f"{url}/docs", "home": settings.root})
        else:
            for name, where in zip(("autotune", "Optuna Dashboard", "MLflow"), found.values(), strict=True):
                data(f"{name + ':':18}{where}")
            sys.stdout.flush()  # whoever reads a pipe would otherwise see them at the end only
        say(f"use it with: export AUTOTUNE_URL={url}   Ctrl-C ends all of it")
        run(app, listener)
