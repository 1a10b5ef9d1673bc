"""The study database: connects, migrates, and opens units of work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from autotune.errors import ConflictError
from autotune.store import schema
from autotune.store.access import AccessRepository
from autotune.store.engine import make_engine, parse_url
from autotune.store.failures import describe, translate
from autotune.store.jobs import JobRepository
from autotune.store.trials import TrialRepository


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitOfWork:
    """One transaction: everything done through its repositories is kept together or not at all."""

    connection: Connection
    jobs: JobRepository
    trials: TrialRepository
    access: AccessRepository


class Store:
    """The study database.

    Args:
        url: SQLAlchemy URL of an SQLite file or of a PostgreSQL database.

    Raises:
        UsageError: If the URL cannot be used.
    """

    def __init__(self, url: str) -> None:
        self.url = parse_url(url)
        self.engine = make_engine(self.url)

    def migrate(self) -> None:
        """Brings the schema to the present version; safe when several processes do it at once.

        Raises:
            ConflictError: If a newer release wrote the schema, or the tables are somebody else's.
            NotAllowedError: If the database may not be written.
            UnreachableError: If it does not answer.
        """
        with self._translated():
            schema.migrate(self.engine)

    def ping(self) -> None:
        """Asks the database for a sign of life.

        Raises:
            UnreachableError: If it does not answer.
            NotAllowedError: If it may not be opened.
            ConflictError: If the file is no database, or its schema is not the present one.
        """
        with self._translated(), self.engine.connect() as connection:
            connection.execute(text("SELECT 1"))
            found = schema.current(connection)
        if found != schema.HEAD:
            raise ConflictError(
                f"{describe(self.url)} is at schema {found or 'none'}, needed is {schema.HEAD}.",
                hint="Start autotune once with write access: it migrates its database by itself.",
            )

    @contextmanager
    def begin(self) -> Iterator[UnitOfWork]:
        """Opens a transaction that may write: committed at the end, rolled back when an exception passes."""
        with self._work(write=True) as work:
            yield work

    @contextmanager
    def read(self) -> Iterator[UnitOfWork]:
        """Opens a transaction that only reads: one consistent picture, and no writer waits for it."""
        with self._work(write=False) as work:
            yield work

    def close(self) -> None:
        """Closes the pooled connections."""
        self.engine.dispose()

    @contextmanager
    def _work(self, *, write: bool) -> Iterator[UnitOfWork]:
        with (
            self._translated(),
            self.engine.connect().execution_options(write=write) as connection,
            connection.begin(),
        ):
            yield UnitOfWork(
                connection=connection,
                jobs=JobRepository(connection),
                trials=TrialRepository(connection),
                access=AccessRepository(connection),
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            known = translate(error, self.url)
            if known is None:
                raise
            raise known from error
