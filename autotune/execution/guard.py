"""A small program between a worker and a trial's process, so that no trial outlives its worker.

``python guard.py --grace SECONDS [--hold FD] -- COMMAND…`` leads a process group of its own, runs the command in it and
exits as the command did (same exit code, same signal), but not before every process below it is gone.

- SIGTERM is passed on to the group; after the grace period, or on a second SIGTERM, everything left gets SIGKILL.
- When the parent is gone (end of file on the pipe at stdin, or another parent process), the same happens by itself.
- Processes that left the group (``torchrun`` gives each worker a session) are found too: the guard is a subreaper, so
  orphans become its children. Elsewhere than on Linux only the group is ended.
- ``--hold FD`` names an inherited descriptor that stays open for as long as anything below the guard lives.

Standard library only and nothing of this package: it must start in a few hundredths of a second. A fork server
(``fork_server.py``) runs the same guard in a process that it has forked.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import stat
import sys
import time

TYPE_CHECKING = False  # importing typing would double the start-up time
if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform == "linux"
_USAGE = "usage: guard --grace SECONDS [--hold FD] -- COMMAND [ARGUMENT ...]"
_CHECK_S = 0.5
_KILL_AGAIN_S = 0.05


class Guard:
    """Watches one command and its descendants.

    Args:
        grace_s: Seconds between SIGTERM and SIGKILL.
        by_pipe: Only the pipe at stdin says whether the worker lives; who the parent is means nothing.
    """

    def __init__(self, grace_s: float, *, by_pipe: bool = False) -> None:
        self._grace_s = grace_s
        self._by_pipe = by_pipe
        self._gone = False
        self._pid = os.getpid()
        self._parent = os.getppid()
        self._child = 0
        self._status: int | None = None
        self._terms = 0
        self._deadline: float | None = None
        self._stdin_open = _is_pipe(0)
        self._wake, self._wake_write = os.pipe()

    def leave(self) -> None:
        """In a forked child: lets go of what belongs to the guard alone."""
        become_child(self._pid)
        os.close(self._wake)
        os.close(self._wake_write)

    def run(self, spawn: Callable[[], int]) -> int:
        """Runs a command to its end.

        Args:
            spawn: Starts it as a child and returns its process id.

        Returns:
            The command's wait status, as ``os.waitpid`` gives it.
        """
        if os.getpgid(0) != os.getpid():
            os.setsid()
        self._listen()
        self._child = spawn()
        while not self._reap():
            self._wait()
            if self._status is not None or self._terms or self._orphaned():
                self._end()
        return self._status or 0

    def _listen(self) -> None:
        for fd in (self._wake, self._wake_write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_term)
        for number in (signal.SIGCHLD, signal.SIGUSR1):
            signal.signal(number, lambda *_: None)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        # Fires when the parent's *thread* ends as well, so it only wakes us up: _orphaned looks who the parent is.
        _prctl(_PR_SET_PDEATHSIG, signal.SIGUSR1)

    def _on_term(self, *_: object) -> None:
        self._terms += 1

    def _wait(self) -> None:
        timeout = _CHECK_S
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            timeout = _KILL_AGAIN_S if left <= 0 else min(timeout, left)
        watched = [self._wake] + ([0] if self._stdin_open else [])
        ready, _, _ = select.select(watched, [], [], timeout)
        if self._wake in ready:
            os.read(self._wake, 4096)
        if 0 in ready and not os.read(0, 4096):
            self._stdin_open = False
            self._gone = True

    def _orphaned(self) -> bool:
        return self._gone or (not self._by_pipe and os.getppid() != self._parent)

    def _reap(self) -> bool:
        """Collects ended children; True once there are none left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self._child:
                self._status = status

    def _end(self) -> None:
        """Moves the end forward: first SIGTERM and a deadline, then SIGKILL until nothing is left."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self._grace_s
            self._terms = max(self._terms, 1)
            _term_group()
            if self._status is not None:
                _signal_all(_descendants(), signal.SIGTERM)
        elif self._terms > 1 or time.monotonic() >= self._deadline:
            self._deadline = time.monotonic()
            if _LINUX:
                _signal_all(_descendants(), signal.SIGKILL)
            else:
                os.killpg(0, signal.SIGKILL)


def _spawn(argv: list[str]) -> int:
    guard = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        become_child(guard)
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.stderr.write(f"cannot start {argv[0]!r}: {error.strerror}\n")
        sys.stderr.flush()
    finally:
        os._exit(127)


def become_child(guard: int) -> None:
    """What a process does that a guard has forked: signals as usual, no input, and death together with the guard."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def _term_group() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    signal.signal(signal.SIGTERM, before)


def _signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _descendants() -> list[int]:
    """Every process below this one, in no particular order; empty where there is no ``/proc``."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if _LINUX else []:  # noqa: PTH208 - pathlib would double the start-up time
        if not name.isdigit():
            continue
        try:
            fd = os.open(f"/proc/{name}/stat", os.O_RDONLY)
        except OSError:
            continue
        try:
            fields = os.read(fd, 4096).rpartition(b")")[2].split()
        except OSError:
            continue
        finally:
            os.close(fd)
        children.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _prctl(option: int, value: int) -> None:
    if _LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _is_pipe(fd: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:
        return False


def pass_on(status: int) -> int:
    """Ends this process as the command ended: by the same signal, or with the exit code that is returned."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    import resource  # only here: most commands exit by themselves

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code


def main(arguments: list[str]) -> int:
    """Parses the command line and runs the guard.

    Returns:
        The command's exit code; 2 for a wrong command line. After a command that was killed by a signal it does not
        return: the same signal ends the guard.
    """
    grace_s: float | None = None
    try:
        while arguments and arguments[0] != "--":
            option, value, *arguments = arguments
            if option == "--grace":
                grace_s = float(value)
            elif option == "--hold":
                os.set_inheritable(int(value), False)
            else:
                raise ValueError(f"unknown option {option!r}")
        if grace_s is None or len(arguments) < 2:
            raise ValueError("--grace and a command are needed")
    except (ValueError, OSError) as error:
        sys.stderr.write(f"{_USAGE}\n{error}\n")
        return 2
    command = arguments[1:]
    return pass_on(Guard(grace_s).run(lambda: _spawn(command)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
