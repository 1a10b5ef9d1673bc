"""One service on one SQLite database; on PostgreSQL there may be any number."""

from __future__ import annotations

import fcntl
from typing import IO

from autotune.errors import ConflictError
from autotune.settings import Settings
from autotune.store.engine import parse_url


def hold_alone(settings: Settings) -> IO[str] | None:
    """Makes sure that no other service runs on an SQLite database.

    Returns:
        What holds it, for as long as it stays open; ``None`` on a database that services share.

    Raises:
        ConflictError: If another service runs on it.
    """
    url = parse_url(settings.study_database)
    if url.get_backend_name() != "sqlite":
        return None
    lock = open(f"{url.database}.service", "a")  # noqa: SIM115, PTH123 - stays open as long as the service
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise ConflictError(
            f"another service runs on the SQLite database {url.database}.",
            hint="Talk to that one with AUTOTUNE_URL. Several services share a PostgreSQL database: set "
            "AUTOTUNE_DATABASE_URL.",
        ) from None
    return lock
