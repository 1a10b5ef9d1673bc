"""One attempt's processes: started through the guard, followed, and ended without leaving anything behind."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from autotune.backends.base import Command
from autotune.execution import guard
from autotune.execution.forked_guard import ForkedGuard, NotWarmError, ReadyServer
from autotune.execution.metrics_tail import Line, MetricsTail
from autotune.execution.outcome import RESULT_NAME, classify, read_result
from autotune.execution.strays import MARK, kill_marked, mark_of
from autotune.search.types import Outcome

logger = logging.getLogger(__name__)

_LOG_TAIL = 64 << 10
_FORCE_AGAIN_S = 1.0


class TrialProcess:
    """A running attempt. Its whole process group is gone once ``poll`` answers with a number.

    Args:
        command: What to run; its environment is added to this process's.
        directory: The trial directory, the process's working directory.
        attempt: The attempt's number; its output goes to ``attempt_N.log``.
        grace_s: Seconds between SIGTERM and SIGKILL if this process dies.
        lock: The trial directory's lock (see ``trial_lock``); it is handed on to the processes and closed here.
        server: Forks the process, if it can; else it starts in a fresh interpreter, and the log says why.
    """

    def __init__(
        self,
        command: Command,
        directory: Path,
        *,
        attempt: int,
        grace_s: float,
        lock: int,
        server: ReadyServer | NotWarmError | None = None,
    ) -> None:
        self._directory = directory
        self._log = directory / f"attempt_{attempt}.log"
        self._mark = mark_of(directory, attempt)
        self._kill_at: float | None = None
        self._swept = False
        self._lines: list[Line] = []
        try:
            (directory / RESULT_NAME).unlink(missing_ok=True)
            self._tail = MetricsTail(directory)
            with self._log.open("ab") as log:
                self._log_start = log.tell()
                env = {**os.environ, **command.env, MARK: self._mark}
                self._process = _started(command, directory, env, grace_s, lock, log, server)
        finally:
            os.close(lock)
        self._pidfd = None if isinstance(self._process, ForkedGuard) else _pidfd(self._process.pid)

    @property
    def pgid(self) -> int:
        """The process group of the attempt: the guard's process id."""
        return self._process.pid

    @property
    def mark(self) -> str:
        """What marks the attempt's processes wherever they are (see ``strays``)."""
        return self._mark

    @property
    def stopping(self) -> bool:
        """Whether the attempt has been told to end."""
        return self._kill_at is not None

    def poll(self) -> int | None:
        """The exit code (minus the signal's number), or ``None`` while any process of the attempt lives."""
        if self._swept:
            return self._process.returncode
        if self._process.poll() is None:
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._kill_at = time.monotonic() + _FORCE_AGAIN_S
                self._signal(signal.SIGTERM)
            return None
        self._sweep()
        return self._process.returncode

    def read(self) -> tuple[Line, ...]:
        """The new lines of ``metrics.jsonl`` since the last call."""
        return self._tail.read(ended=self._process.returncode is not None)

    def wait(self, seconds: float) -> int | None:
        """Waits until the attempt has ended, at most so long; answers like ``poll``."""
        end = time.monotonic() + seconds
        while (code := self.poll()) is None and (left := end - time.monotonic()) > 0:
            watched = self._process if isinstance(self._process, ForkedGuard) else self._pidfd
            if watched is None:
                time.sleep(min(left, 0.02))
            else:
                select.select([watched], [], [], min(left, _FORCE_AGAIN_S))
        return code

    def request_stop(self, grace_s: float) -> None:
        """Sends SIGTERM; ``poll`` and ``wait`` send SIGKILL to what is left after the grace period."""
        if self._kill_at is None:
            self._kill_at = time.monotonic() + grace_s
            self._signal(signal.SIGTERM)

    def terminate(self, grace_s: float) -> int:
        """Ends the attempt and returns once its process group is empty: SIGTERM, the grace period, SIGKILL.

        Returns:
            The exit code, or minus the number of the signal that ended the process.
        """
        self.request_stop(grace_s)
        while (code := self.wait(_FORCE_AGAIN_S)) is None:
            continue
        return code

    def log_tail(self) -> str:
        """The end of what this attempt has printed, at most 64 KiB."""
        try:
            with self._log.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start, size - _LOG_TAIL))
                return log.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def outcome(self, *, last_step: int, expected_steps: int) -> Outcome:
        """How the attempt ended.

        Raises:
            RuntimeError: If it has not ended yet.
        """
        code = self.poll()
        if code is None:
            raise RuntimeError(f"the attempt in {self._directory} has not ended; wait for poll() first")
        return classify(
            read_result(self._directory),
            code,
            self.log_tail(),
            last_step=last_step,
            expected_steps=expected_steps,
            stopping=self.stopping,
        )

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _sweep(self) -> None:
        """Ends what a guard that was itself killed could not end, and frees the handles."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._process.returncode == -signal.SIGKILL:  # perhaps the guard's own end, not the trial's
            kill_marked(self._mark)
        self._swept = True
        if isinstance(self._process, ForkedGuard):
            self._process.close()
        elif self._process.stdin is not None:
            self._process.stdin.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def _started(
    command: Command,
    directory: Path,
    env: Mapping[str, str],
    grace_s: float,
    lock: int,
    log: BinaryIO,
    server: ReadyServer | NotWarmError | None,
) -> subprocess.Popen[bytes] | ForkedGuard:
    if isinstance(server, ReadyServer):
        try:
            return server.fork(command, cwd=directory, env=env, grace_s=grace_s, log=log.fileno(), lock=lock)
        except NotWarmError as error:
            server = error
    if server is not None:
        logger.warning("%s: a fresh interpreter starts the trial: %s", directory, server)
        log.write(f"note: this attempt starts in a fresh interpreter, which takes some seconds: {server}\n".encode())
        log.flush()
    return subprocess.Popen(
        _guarded(command, grace_s, lock),
        cwd=directory,
        env=env,
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=(lock,),
    )


def _guarded(command: Command, grace_s: float, lock: int) -> list[str]:
    # By path and without site-packages: importing this package or anything else would double its start-up time.
    python = [sys.executable, "-I", "-S", guard.__file__]
    return [*python, "--grace", str(grace_s), "--hold", str(lock), "--", *command.argv]


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
