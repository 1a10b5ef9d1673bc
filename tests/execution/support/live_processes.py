"""Looks at the machine's real processes, which no clock of ours can move."""

import os
import select
import time
from pathlib import Path


def processes(marker: str) -> list[int]:
    """Every live process whose working directory or command line contains the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            text = f"{(entry / 'cwd').readlink()} {(entry / 'cmdline').read_bytes().decode(errors='replace')}"
        except OSError:
            continue
        if marker in text and state != "Z":
            found.append(int(entry.name))
    return found


def wait_until(condition, seconds=10.0, what="the condition"):
    """Asks again and again, a few hundredths of a second apart."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come true within {seconds} s"
        select.select([], [], [], 0.02)
