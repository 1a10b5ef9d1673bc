"""How a driver process is started, and one that waits until there is a job for it.

Before a driver can start a trial it imports Ray and Tune, which takes seconds. One that was started ahead has done so
by the time a job comes; it is told the job on its standard input and is from then on a driver like any other.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from autotune.store.values import Lease

DRIVER = (sys.executable, "-m", "autotune.service.driver")
QUIET_S = 30.0
"""How long nobody is started ahead after a driver has begun, whose first trials need the cores, or has died waiting."""


class Drivers:
    """Starts drivers, one of them ahead of its job.

    Args:
        command: How a driver is started.
        ahead: Whether one may wait ready.
    """

    def __init__(self, command: Sequence[str] = DRIVER, *, ahead: bool = True) -> None:
        self._command = tuple(command)
        self._ahead = ahead
        self._ready: subprocess.Popen[bytes] | None = None
        self._begun_at = float("-inf")

    def get_ready(self) -> None:
        """Starts one ahead, unless one waits already or a driver has only just begun."""
        if self._ready is not None:
            if self._ready.poll() is None:
                return
            self.end()
            self._begun_at = time.monotonic()  # it died by itself, and so would the next one
        if not self._ahead or time.monotonic() < self._begun_at + QUIET_S:
            return
        # A session of its own: Ctrl-C in the terminal reaches the driver through us, once, as SIGTERM.
        self._ready = subprocess.Popen(
            [*self._command, "--ready", "--parent", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def start(self, lease: Lease, tries: int, log: Path) -> subprocess.Popen[bytes]:
        """Starts a driver, or gives the job to the one that waits.

        Args:
            lease: The job, and the right to drive it.
            tries: Drivers of this job that have met an outage before this one.
            log: What it says is appended here.

        Raises:
            OSError: If there is no disk, no memory or no process to be had.
        """
        with log.open("ab") as output:
            process = self._waiting(lease, tries, log)
            if process is None:
                words = [lease.job, "--owner", lease.owner, "--token", str(lease.token), "--tries", str(tries)]
                process = subprocess.Popen(
                    [*self._command, *words, "--parent", str(os.getpid())],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        self._begun_at = time.monotonic()
        return process

    def end(self) -> None:
        """Ends the one that waits, if any."""
        process, self._ready = self._ready, None
        if process is not None:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def _waiting(self, lease: Lease, tries: int, log: Path) -> subprocess.Popen[bytes] | None:
        """The one that waits, once it has been told its job; ``None`` where there is none, or it has died."""
        process, self._ready = self._ready, None
        if process is None or process.stdin is None:
            return None
        told = {"job": lease.job, "owner": lease.owner, "token": lease.token, "tries": tries, "log": str(log)}
        with contextlib.suppress(OSError), process.stdin:
            process.stdin.write(json.dumps(told).encode() + b"\n")
            process.stdin.flush()
            if process.poll() is None:
                return process
        process.kill()
        process.wait()
        return None
