"""The private directory of a Ray that belongs to one driver, and what is got ready in it before Ray starts."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from autotune.backends.base import Command
from autotune.execution import ray_reaper
from autotune.execution.fork_servers import ForkServers, can_fork, warm_place

_SOCKET_ROOM = 40
"""Longest temporary directory: a Unix socket's path has 107 bytes, and Ray adds up to 66 of its own."""
_PREFIX = "autotune-"


@contextlib.contextmanager
def ray_home(ahead: Command | None = None, *, warm_s: float = 0.0) -> Iterator[Path]:
    """A short private directory for Ray's sockets and logs, which goes when this process ends, in whatever way.

    Args:
        ahead: How the first trial will be started: what it imports is imported while Ray starts.
        warm_s: Seconds that a fork server outlives its last trial; 0 = there is none.
    """
    with _temporary_dir() as directory, contextlib.ExitStack() as stack:
        if ahead is not None and warm_s and can_fork(ahead):
            servers = ForkServers(warm_place(directory, watched=os.getpid(), idle_s=warm_s))
            stack.callback(servers.end)
            servers.start(ahead, {**os.environ, **ahead.env})
        yield directory


@contextlib.contextmanager
def _temporary_dir() -> Iterator[Path]:
    root = Path(tempfile.gettempdir())
    if len(str(root)) + len(_PREFIX) + 10 > _SOCKET_ROOM:
        root = Path("/tmp")
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
    reaper = subprocess.Popen(
        [sys.executable, "-I", "-S", ray_reaper.__file__, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    try:
        yield directory
    finally:
        if reaper.stdin is not None:
            reaper.stdin.close()
        reaper.wait()
