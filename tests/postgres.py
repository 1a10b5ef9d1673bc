"""A private PostgreSQL server for tests and benchmarks, on a Unix socket; as root it runs as the user postgres."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from autotune.store import Store


class PostgresServer:
    """A running server.

    Args:
        home: Where its data and its socket are; short, since a socket's path has to be.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self._counter = itertools.count()

    def fresh(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{next(self._counter)}"
        admin = Store(f"postgresql://tester@/postgres?host={self.home}")
        with admin.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        admin.close()
        return f"postgresql://tester@/{name}?host={self.home}"

    def backends(self, database: str) -> list[int]:
        """The server's processes that hold a connection to a database."""
        found = []
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                title = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                if title.startswith(f"postgres: tester {database} ") and self._is_ours(int(directory.name)):
                    found.append(int(directory.name))
            except OSError:
                continue
        return found

    def _is_ours(self, pid: int) -> bool:
        parent = int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
        return str(parent) == (self.home / "data" / "postmaster.pid").read_text().split()[0]


def missing() -> str:
    """Why no server can be started here; empty when one can."""
    if not _programs():
        return "no PostgreSQL server is installed"
    if os.geteuid() == 0 and _user() is None:
        return "PostgreSQL does not run as root and there is no user postgres"
    return ""


@contextmanager
def started(*, durable: bool) -> Iterator[Path]:
    """A server while the block lasts; yields its home, where its socket is and the role ``tester`` may do anything.

    Args:
        durable: Wait for the disk as the distribution's settings do; tests need not.
    """
    user, programs = _user() if os.geteuid() == 0 else None, _programs()
    home = Path(tempfile.mkdtemp(prefix="atpg"))
    if user:
        shutil.chown(home, user)

    def run(name: str, *arguments: str) -> None:
        command = [str(programs[-1].with_name(name)), *arguments]
        subprocess.run(command, check=True, user=user, cwd=home, stdout=subprocess.DEVNULL, timeout=120)

    run(
        "initdb", "-D", f"{home}/data", "-U", "tester", "-A", "trust", "-E", "UTF8", *([] if durable else ["--no-sync"])
    )
    options = f"-c listen_addresses='' -c unix_socket_directories={home}" + ("" if durable else " -c fsync=off")
    run("pg_ctl", "-D", f"{home}/data", "-w", "-l", f"{home}/log", "-o", options, "start")
    try:
        yield home
    finally:
        run("pg_ctl", "-D", f"{home}/data", "-w", "-m", "immediate", "stop")
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Starts a server; skips the test where none can be."""
    if why := missing():
        pytest.skip(why)
    pytest.importorskip("psycopg")
    with started(durable=False) as home:
        yield PostgresServer(home)


def _programs() -> list[Path]:
    return sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


def _user() -> str | None:
    """Whom it runs as where we are root: the server refuses to."""
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return None
