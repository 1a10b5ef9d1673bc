"""One attempt at a time per trial directory: a lock that lives as long as the attempt's processes do."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

LOCK_NAME = ".lock"


def try_lock(directory: Path) -> int | None:
    """Takes the lock of a trial directory, without waiting.

    The lock belongs to the open file: a child that inherits the descriptor keeps it until it exits, also when the
    process that took it has died.

    Returns:
        The open descriptor, or ``None`` while processes of an earlier attempt are still there.
    """
    directory.mkdir(parents=True, exist_ok=True)
    fd = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except OSError:
        os.close(fd)
        raise
    return fd


def is_locked(directory: Path) -> bool:
    """Whether processes of an attempt still live in a trial directory."""
    if not (directory / LOCK_NAME).exists():
        return False
    fd = try_lock(directory)
    if fd is None:
        return True
    os.close(fd)
    return False
