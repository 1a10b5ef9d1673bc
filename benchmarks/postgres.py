"""A private PostgreSQL server for a benchmark, on a Unix socket, with the settings that the distribution ships."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def empty_database() -> Iterator[str | None]:
    """The URL of an empty database; ``None`` where no server is installed or may be started."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    user = _other_user() if os.geteuid() == 0 else None
    if not found or (os.geteuid() == 0 and user is None):
        yield None
        return
    home = Path(tempfile.mkdtemp(prefix="atpg"))
    if user:
        shutil.chown(home, user)

    def run(name: str, *arguments: str) -> None:
        command = [str(found[-1].with_name(name)), *arguments]
        subprocess.run(command, check=True, user=user, cwd=home, stdout=subprocess.DEVNULL, timeout=120)

    run("initdb", "-D", f"{home}/data", "-U", "autotune", "-A", "trust", "-E", "UTF8")
    options = f"-c listen_addresses='' -c unix_socket_directories={home}"
    run("pg_ctl", "-D", f"{home}/data", "-w", "-l", f"{home}/log", "-o", options, "start")
    try:
        yield f"postgresql://autotune@/postgres?host={home}"
    finally:
        run("pg_ctl", "-D", f"{home}/data", "-w", "-m", "immediate", "stop")
        shutil.rmtree(home, ignore_errors=True)


def _other_user() -> str | None:
    # The server refuses to run as root.
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return None
