"""The program itself, as a child in a process group of its own."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

LOOK_S = 0.1
"""How often files are looked at."""
_LAST_WORDS_S = 1.0
_LAST_CHANCE_S = 10.0
_MAX_LINE = 64 << 10


class Child:
    """Runs a program to its end and passes its output on.

    SIGTERM, SIGINT and SIGHUP go to the program's whole process group, so that a shell script around the program does
    not keep it from hearing of them; the end is then the end of the whole group.

    Args:
        argv: What to run.
        env: Its whole environment.
        cwd: Where the program starts.
        on_line: Called with each line of its output.
        on_look: Called about ten times a second, and once after the end.
        stall_s: A program that shows nothing for so long is ended; ``None`` = there is no limit.

    Attributes:
        stopping: The program has been told to end.
        hung: It was ended because it showed nothing any more.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        *,
        on_line: Callable[[str], None],
        on_look: Callable[[], None],
        stall_s: float | None = None,
    ) -> None:
        self.stopping = False
        self.hung = False
        self._stall_s = stall_s
        self._alive_at = time.monotonic()
        self._argv = argv
        self._env = {"PYTHONUNBUFFERED": "1", **env}
        self._cwd = cwd
        self._on_line = on_line
        self._on_look = on_look
        self._partial = b""
        self._group: int | None = None

    def run(self) -> int:
        """Runs it to its end; what it prints is printed here too.

        Returns:
            Its exit code, or minus the number of the signal that ended it.

        Raises:
            OSError: If it cannot be started.
        """
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._pass_on)
        if self.stopping:
            return -signal.SIGTERM
        with subprocess.Popen(
            list(self._argv),
            env=self._env,
            cwd=self._cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        ) as process:
            assert process.stdout is not None
            self._group = process.pid
            try:
                self._catch_up()
                self._follow(process, process.stdout.fileno())
            except BaseException:  # a full disk, for one: nobody would read the program's output any more
                self._kill()
                raise
            return process.returncode

    def touch(self) -> None:
        """A sign of life that came another way than by the output."""
        self._alive_at = time.monotonic()

    def _pass_on(self, *_: object) -> None:
        self.stopping = True
        self._kill(signal.SIGTERM)

    def _catch_up(self) -> None:
        """Passes on what arrived before there was anybody to pass it on to."""
        if self.stopping:
            self._pass_on()

    def _follow(self, process: subprocess.Popen[bytes], output: int) -> None:
        is_open, ended_at, look_at = True, None, 0.0
        while True:
            if is_open:
                ready, _, _ = select.select([output], [], [], LOOK_S)
                is_open = not ready or self._read(output)
            else:
                time.sleep(LOOK_S)
            if time.monotonic() >= look_at:
                self._on_look()
                self._end_if_hung()
                look_at = time.monotonic() + LOOK_S
            if process.poll() is not None:
                ended_at = ended_at or time.monotonic()
                # What the program leaves behind may hold its output open for ever; the guard ends it.
                alive = self._alive() if self.stopping else is_open and time.monotonic() < ended_at + _LAST_WORDS_S
                if not alive:
                    break
        self._line(self._partial)
        self._on_look()

    def _end_if_hung(self) -> None:
        silent = time.monotonic() - self._alive_at
        if self._stall_s is None or silent < self._stall_s:
            return
        # First politely; a program that hangs in a native call hears of nothing but SIGKILL.
        number = signal.SIGKILL if silent > self._stall_s + _LAST_CHANCE_S else signal.SIGTERM
        if number == signal.SIGKILL or not self.hung:
            self.hung = True
            self._kill(number)

    def _kill(self, number: int = signal.SIGKILL) -> None:
        if self._group is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, number)

    def _alive(self) -> bool:
        assert self._group is not None
        try:
            os.killpg(self._group, 0)
        except ProcessLookupError:
            return False
        return True

    def _read(self, output: int) -> bool:
        chunk = os.read(output, 64 << 10)
        self.touch()
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        # A progress bar returns to the start of its line instead of ending it.
        *lines, self._partial = (self._partial + chunk).replace(b"\r", b"\n").split(b"\n")
        if len(self._partial) > _MAX_LINE:
            lines, self._partial = [*lines, self._partial], b""
        for line in lines:
            self._line(line)
        return bool(chunk)

    def _line(self, raw: bytes) -> None:
        if raw.strip():
            self._on_line(raw[:_MAX_LINE].decode("utf-8", "replace"))


def end_like(code: int) -> int:
    """The exit code to end with; after a signal this process is ended by the same one and does not return."""
    if code >= 0:
        return code
    sys.stdout.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code


def say(text: str) -> None:
    """A word of the adapter's own in the attempt's log."""
    sys.stdout.write(f"autotune: {text}\n")
    sys.stdout.flush()
