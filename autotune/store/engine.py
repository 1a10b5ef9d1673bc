"""How we connect: one place for SQLite's pragmas and PostgreSQL's driver."""

from __future__ import annotations

from pydantic_core import from_json  # four times as fast as the standard library's
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry

from autotune.errors import UsageError
from autotune.store.clean import dumps

BUSY_TIMEOUT_S = 30.0
"""How long a writer waits for another one on SQLite."""
_ALLOWED = "allowed are sqlite:////absolute/file.db and postgresql://user:password@host/database"


def parse_url(text: str) -> URL:
    """Reads a database URL and names the driver that we use for it.

    Raises:
        UsageError: If it is not the URL of an SQLite file or of a PostgreSQL database.
    """
    hint = "Set AUTOTUNE_DATABASE_URL to one of these, or unset it to use SQLite under AUTOTUNE_HOME."
    try:
        url = make_url(text.replace("postgres://", "postgresql://", 1) if text.startswith("postgres://") else text)
    except (ArgumentError, ValueError) as error:
        raise UsageError(f"the database URL cannot be read; {_ALLOWED}.", hint=hint) from error
    backend = url.get_backend_name()
    if backend == "sqlite":
        if not url.database or url.database == ":memory:":
            raise UsageError("an SQLite database in memory cannot be shared by processes; give a file.", hint=hint)
        return url.set(drivername="sqlite")
    if backend == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    raise UsageError(f"databases of the kind {backend!r} are not supported; {_ALLOWED}.", hint=hint)


def make_engine(url: URL) -> Engine:
    """An engine whose transactions cannot deadlock on an upgrade from reading to writing.

    On SQLite a transaction opened with the execution option ``write=True`` takes the write lock at its start, others
    read a snapshot.

    Raises:
        UsageError: If the driver for PostgreSQL is not installed.
    """
    if url.get_backend_name() != "sqlite":
        try:
            return create_engine(
                url,
                json_serializer=dumps,
                json_deserializer=from_json,
                pool_pre_ping=True,
                connect_args={"connect_timeout": 10},
                pool_size=5,
            )
        except ModuleNotFoundError as error:
            raise UsageError(
                "the PostgreSQL driver psycopg is not installed.", hint="Run: pip install 'autotune-rl[postgres]'"
            ) from error
    engine = create_engine(url, json_serializer=dumps, json_deserializer=from_json)
    event.listen(engine, "connect", _use_manual_transactions)
    event.listen(engine, "connect", set_pragmas)
    event.listen(engine, "begin", _begin)
    return engine


def set_pragmas(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    """Prepares a new SQLite connection; WAL itself is a property of the file, set once by the migration."""
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={int(BUSY_TIMEOUT_S * 1000)}")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _use_manual_transactions(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    # The driver would open transactions by itself, too late and always for reading; we say BEGIN ourselves.
    connection.isolation_level = None


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
