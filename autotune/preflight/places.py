"""Where things are kept and reached: the home directory, the databases, MLflow, Ray, the port."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from autotune.errors import NotAllowedError
from autotune.preflight.check import Check, Context, Status

_NOT_ALLOWED, _UNREACHABLE, _USAGE = 6, 7, 2
_TIMEOUT_S = 3.0


def home(context: Context) -> Iterator[Check]:
    """Whether the home directory can be written."""
    try:
        context.settings.prepare_home()
    except NotAllowedError as error:
        yield Check(name="home", status=Status.FAIL, text=error.message, fix=error.hint, exit_code=error.exit_code)
    else:
        yield Check(name="home", status=Status.OK, text=f"{context.settings.root} can be written")


def database(context: Context) -> Iterator[Check]:
    """Whether the study database answers."""
    yield sql("database", context.settings.study_database, "AUTOTUNE_DATABASE_URL")


def mlflow(context: Context) -> Iterator[Check]:
    """Whether MLflow's place answers; MLflow itself is not imported."""
    uri = context.settings.tracking_uri
    scheme = urlsplit(uri).scheme
    if scheme in ("http", "https"):
        yield _http(uri)
    elif scheme in ("", "file"):
        yield Check(name="mlflow", status=Status.OK, text=f"files in {uri}")
    else:
        yield sql("mlflow", uri, "AUTOTUNE_MLFLOW_URI")


def ray(context: Context) -> Iterator[Check]:
    """Which Ray is installed, and whether the cluster's port is open; Ray itself is not imported."""
    address = context.settings.ray_address
    if address is None:
        yield Check(name="ray", status=Status.OK, text=f"{version('ray')}, a local one is started for each run")
        return
    parts = urlsplit(address if "//" in address else f"//{address}")
    try:
        host, number = parts.hostname, parts.port
    except ValueError:
        host, number = None, None
    if address == "auto" or host is None or number is None:
        yield Check(name="ray", status=Status.OK, text=f"{version('ray')}, address {address} is tried at launch")
        return
    try:
        socket.create_connection((host, number), timeout=_TIMEOUT_S).close()
    except OSError as error:
        yield Check(
            name="ray",
            status=Status.FAIL,
            text=f"nothing answers at {address}: {error.strerror or error}",
            fix="Start it with `ray start --head`, or unset AUTOTUNE_RAY_ADDRESS.",
            exit_code=_UNREACHABLE,
        )
    else:
        yield Check(name="ray", status=Status.OK, text=f"{version('ray')}, {address} answers")


def port(context: Context) -> Iterator[Check]:
    """Whether the service's port is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", context.port))
        except OSError as error:
            yield Check(
                name="port",
                status=Status.WARN,
                text=f"{context.port} is not free: {error.strerror}; autotune serve may be running",
                fix=f"Use it with AUTOTUNE_URL=http://127.0.0.1:{context.port}, or serve with another --port.",
            )
        else:
            yield Check(name="port", status=Status.OK, text=f"{context.port} is free")


def sql(name: str, url: str, variable: str) -> Check:
    """Whether a database answers; a SQLite file that is not there yet is fine and stays uncreated."""
    from sqlalchemy import create_engine, make_url, text
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError
    from sqlalchemy.pool import NullPool

    try:
        parsed = make_url(url)
    except ArgumentError:
        return Check(
            name=name,
            status=Status.FAIL,
            text="the address is no SQLAlchemy URL",
            fix=f"Set {variable}=postgresql+psycopg://user:password@host/name, or unset it for SQLite.",
            exit_code=_USAGE,
        )
    shown = parsed.render_as_string(hide_password=True)
    sqlite = parsed.get_backend_name() == "sqlite"
    file = Path(parsed.database) if sqlite and parsed.database and parsed.database != ":memory:" else None
    if file is not None and not file.exists():
        return Check(name=name, status=Status.OK, text=f"{file} will be created")
    if file is not None and not os.access(file, os.W_OK):
        return Check(
            name=name,
            status=Status.FAIL,
            text=f"{file} cannot be written",
            fix=f"Give yourself write access, or set {variable}.",
            exit_code=_NOT_ALLOWED,
        )
    patience = {"timeout": _TIMEOUT_S} if sqlite else {"connect_timeout": int(_TIMEOUT_S)}
    try:
        engine = create_engine(parsed, poolclass=NullPool, connect_args=patience)
        with engine.connect() as connection:
            connection.execute(text("PRAGMA schema_version" if sqlite else "SELECT 1"))
    except (SQLAlchemyError, ImportError) as error:
        why = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        return Check(
            name=name,
            status=Status.FAIL,
            text=f"{shown} does not answer: {why}",
            fix=f"Start the database, or correct {variable}.",
            exit_code=_UNREACHABLE,
        )
    return Check(name=name, status=Status.OK, text=f"{shown} answers")


def _http(uri: str) -> Check:
    import httpx2

    try:
        answer = httpx2.get(f"{uri.rstrip('/')}/health", timeout=_TIMEOUT_S)
        why = "" if answer.is_success else f"it answered {answer.status_code}"
    except httpx2.HTTPError as error:
        why = str(error)
    if why:
        return Check(
            name="mlflow",
            status=Status.FAIL,
            text=f"{uri} does not answer: {why}",
            fix="Start it with `mlflow server`, or unset AUTOTUNE_MLFLOW_URI for a local file.",
            exit_code=_UNREACHABLE,
        )
    return Check(name="mlflow", status=Status.OK, text=f"{uri} answers")
