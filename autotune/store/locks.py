"""A lock between processes around the creation of tables, which no database does safely twice at once."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, text

from autotune.errors import NotAllowedError

_ADVISORY_KEY = 0x6175746F  # "auto"


@contextmanager
def schema_lock(engine: Engine) -> Iterator[None]:
    """Holds the lock of this database's schema; other processes wait for it.

    Raises:
        NotAllowedError: If the lock file beside an SQLite database cannot be created.
    """
    if engine.dialect.name == "sqlite":
        path = Path(f"{engine.url.database}.lock")
        try:
            file = path.open("a")
        except OSError as error:
            raise NotAllowedError(
                f"cannot create {path} beside the study database: {error.strerror or error}.",
                hint="Create the directory and give yourself write access, or choose another with AUTOTUNE_HOME.",
            ) from error
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)  # the kernel frees it when the process dies
            yield
        return
    with engine.connect() as connection:
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _ADVISORY_KEY})
        connection.commit()
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _ADVISORY_KEY})
            connection.commit()
