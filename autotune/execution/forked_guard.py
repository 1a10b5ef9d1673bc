"""A trial that a fork server has forked, as its worker sees it, and how it is asked for."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
from collections.abc import Mapping
from pathlib import Path

from autotune.backends.base import Command

_HEADER = struct.Struct("!I")


class NotWarmError(Exception):
    """No trial can be forked here; it starts in a fresh interpreter. The message says why."""


class ForkedGuard:
    """The guard of a trial that a fork server has forked, as ``subprocess.Popen`` would show it."""

    def __init__(self, pid: int, handle: int, pipe: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._handle, self._pipe, self._status = handle, pipe, status

    def fileno(self) -> int:
        """A descriptor that becomes readable when the guard has ended."""
        return self._handle

    def poll(self) -> int | None:
        """The exit code (minus the signal's number), or ``None`` while the guard lives."""
        if self.returncode is None and select.select([self._handle], [], [], 0)[0]:
            told = os.read(self._status, 16)
            # A guard that was itself killed tells nothing.
            self.returncode = os.waitstatus_to_exitcode(int(told)) if told else -signal.SIGKILL
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Signals the guard, unless it has ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def close(self) -> None:
        """Frees the descriptors; a guard that still lives takes it for this process's end."""
        for fd in (self._pipe, self._status, self._handle):
            os.close(fd)


class ReadyServer:
    """A server that has just said that it is ready; good for one fork."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def close(self) -> None:
        """Leaves without a request."""
        self._connection.close()

    def fork(
        self, command: Command, *, cwd: Path, env: Mapping[str, str], grace_s: float, log: int, lock: int
    ) -> ForkedGuard:
        """Starts ``python -m MODULE …`` under a guard.

        Args:
            command: What a fresh interpreter would be given.
            cwd: The trial directory.
            env: The whole environment.
            grace_s: Seconds between SIGTERM and SIGKILL when this process dies.
            log: Where it prints to.
            lock: The trial directory's lock.

        Raises:
            NotWarmError: If the server does not answer; then nothing was started.
        """
        module, arguments = command.argv[2], list(command.argv[3:])
        request = {"module": module, "arguments": arguments, "cwd": str(cwd), "env": dict(env), "grace_s": grace_s}
        payload = json.dumps(request).encode()
        with contextlib.ExitStack() as here, self._connection:
            theirs, pipe = os.pipe()
            here.callback(os.close, theirs)
            undo = here.enter_context(contextlib.ExitStack())
            undo.callback(os.close, pipe)
            status, told = os.pipe()
            here.callback(os.close, told)
            undo.callback(os.close, status)
            try:
                socket.send_fds(self._connection, [_HEADER.pack(len(payload))], [theirs, log, lock, told])
                self._connection.sendall(payload)
                answer, fds = receive(self._connection)
                if not fds:
                    raise NotWarmError(f"the fork server answered {answer}")
                undo.callback(os.close, fds[0])
                os.write(pipe, b"g")  # from here on there is a trial
            except (OSError, ValueError) as error:
                raise NotWarmError(f"the fork server did not answer ({error})") from error
            undo.pop_all()
        return ForkedGuard(int(str(answer["pid"])), fds[0], pipe, status)


def receive(connection: socket.socket) -> tuple[dict[str, object], list[int]]:
    """One answer of a fork server, with its descriptors.

    Raises:
        OSError: If it does not come.
        ValueError: If it is none.
    """
    header, fds, _, _ = socket.recv_fds(connection, _HEADER.size, 1)
    if len(header) < _HEADER.size:
        raise ConnectionResetError("the connection was closed")
    left, parts = int(_HEADER.unpack(header)[0]), b""
    while len(parts) < left:
        part = connection.recv(left - len(parts))
        if not part:
            raise ConnectionResetError("the connection was closed")
        parts += part
    content = json.loads(parts)
    return (content if isinstance(content, dict) else {}), list(fds)
