"""A copy of the study database while it is in use."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

from autotune.errors import ConflictError, NotAllowedError, UnreachableError, UsageError
from autotune.store.database import Store
from autotune.store.failures import describe


def back_up(store: Store, target: Path) -> int:
    """Copies the database into a new file: an SQLite database, or for PostgreSQL what ``pg_restore`` reads.

    Writers may go on meanwhile; the copy is one consistent picture. It appears under its name only when it is whole.

    Returns:
        Its size in bytes.

    Raises:
        ConflictError: If the file exists.
        NotAllowedError: If it cannot be written.
        UnreachableError: If the database does not let itself be copied.
        UsageError: If the program that copies PostgreSQL is not installed.
    """
    if target.exists():
        raise ConflictError(f"{target} exists already.", hint="Choose another name, or move it away.")
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        unfinished.touch(mode=0o600)
        if store.url.get_backend_name() == "sqlite":
            _copy_sqlite(Path(str(store.url.database)), unfinished)
        else:
            _dump_postgres(store, unfinished)
        with unfinished.open("rb") as whole:
            os.fsync(whole.fileno())
        unfinished.rename(target)
    except OSError as error:
        raise NotAllowedError(f"{target} cannot be written: {error.strerror or error}.") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return target.stat().st_size


def _copy_sqlite(source: Path, target: Path) -> None:
    try:
        with sqlite3.connect(f"file:{source}?mode=ro", uri=True) as old, sqlite3.connect(target) as new:
            old.backup(new)
            (verdict,) = new.execute("PRAGMA integrity_check").fetchone()
        old.close()
        new.close()
    except sqlite3.Error as error:
        raise UnreachableError(f"{source} cannot be copied: {error}.") from error
    if verdict != "ok":
        raise UnreachableError(
            f"the copy of {source} is damaged: {verdict}.", hint="The database itself may be: check its disk."
        )


def _dump_postgres(store: Store, target: Path) -> None:
    program = shutil.which("pg_dump")
    if program is None:
        raise UsageError(
            "pg_dump is not installed here, and PostgreSQL is copied with it.",
            hint="Install the PostgreSQL client of the server's version, or back the server up as its operator does.",
        )
    url = store.url.set(drivername="postgresql", password=None)
    env = {**os.environ, **({"PGPASSWORD": str(store.url.password)} if store.url.password else {})}
    command = [program, "--format=custom", f"--file={target}", url.render_as_string()]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnreachableError(f"{describe(store.url)} cannot be copied: {done.stderr.strip()}")
