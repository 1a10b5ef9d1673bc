"""A small program that ends what a killed driver leaves of its Ray.

``python ray_reaper.py DIRECTORY`` waits for the end of file at its stdin, which comes when the driver ends in whatever
way. Most of Ray's processes notice that by themselves; its agents linger for a minute or more. Every process that
still has a file of Ray's temporary directory open is killed, and the directory is removed.

The driver itself is spared where it goes on. Trials are not concerned: their guards end them when the workers are gone.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time

_PATIENCE_S = 1.0
_GIVE_UP_S = 15.0


def users_of(directory: str) -> list[int]:
    """The processes that have a file below a directory open; empty where there is no ``/proc``."""
    inside = directory.rstrip("/") + "/"
    found = []
    for name in os.listdir("/proc") if sys.platform == "linux" else []:  # noqa: PTH208 - as light as the guard
        if name.isdigit() and int(name) not in (os.getpid(), os.getppid()) and _uses(name, inside):
            found.append(int(name))
    return found


def _uses(pid: str, inside: str) -> bool:
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
            if os.readlink(f"/proc/{pid}/fd/{fd}").startswith(inside):  # noqa: PTH115
                return True
    except OSError:
        return False
    return False


def reap(directory: str) -> None:
    """Kills the users of a directory until there are none, then removes it."""
    until = time.monotonic() + _GIVE_UP_S
    select.select([], [], [], _PATIENCE_S if users_of(directory) else 0.0)
    while (pids := users_of(directory)) and time.monotonic() < until:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        select.select([], [], [], 0.1)
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 4096):
        continue
    reap(sys.argv[1])
