"""A private PostgreSQL server for tests, on a Unix socket; it runs as the user postgres where the tests are root's."""

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


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Starts a server; skips the test where none is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("no PostgreSQL server is installed")
    pytest.importorskip("psycopg")
    user = None
    if os.geteuid() == 0:  # the server refuses to run as root
        try:
            user = pwd.getpwnam("postgres").pw_name
        except KeyError:
            pytest.skip("PostgreSQL does not run as root and there is no user postgres")
    home = Path(tempfile.mkdtemp(prefix="atpg"))
    if user:
        shutil.chown(home, user)

    def run(name: str, *arguments: str) -> None:
        command = [str(found[-1].with_name(name)), *arguments]
        subprocess.run(command, check=True, user=user, cwd=home, stdout=subprocess.DEVNULL, timeout=60)

    run("initdb", "-D", f"{home}/data", "-U", "tester", "-A", "trust", "--no-sync", "-E", "UTF8")
    options = f"-c listen_addresses='' -c unix_socket_directories={home} -c fsync=off"
    run("pg_ctl", "-D", f"{home}/data", "-w", "-l", f"{home}/log", "-o", options, "start")
    try:
        yield PostgresServer(home)
    finally:
        run("pg_ctl", "-D", f"{home}/data", "-w", "-m", "immediate", "stop")
        shutil.rmtree(home, ignore_errors=True)
