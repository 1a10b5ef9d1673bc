"""Finds what a killed guard has left: processes that carry the attempt's mark in their environment."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

MARK = "AUTOTUNE_ATTEMPT"
"""The variable that says to which attempt a process belongs; children inherit it, also those in another session."""


def mark_of(directory: Path, attempt: int) -> str:
    """The mark of one attempt, which no other has on this machine."""
    return f"{directory.absolute()}#{attempt}"


def kill_marked(mark: str) -> None:
    """Sends SIGKILL to every process with the mark, until there is none; without ``/proc`` it does nothing."""
    while found := _marked(f"{MARK}={mark}".encode()):
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def processes_of(pgid: int, mark: str) -> set[int]:
    """The processes of a group, and those with the mark that have left it; none without ``/proc``."""
    found = set(_marked(f"{MARK}={mark}".encode()))
    for process in Path("/proc").iterdir() if Path("/proc/self/environ").exists() else ():
        if process.name.isdigit():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getpgid(int(process.name)) == pgid:
                    found.add(int(process.name))
    return found


def _marked(entry: bytes) -> list[int]:
    found = []
    for process in Path("/proc").iterdir() if Path("/proc/self/environ").exists() else ():
        if process.name.isdigit():
            # The environment of a process that has ended, a zombie, reads as empty.
            with contextlib.suppress(OSError):
                if entry in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
    return found
