"""Forks trials from a process that has imported what they import, so that a trial starts in a tenth of a second.

``python fork_server.py --socket PATH --listen FD --lock FD --watch PID --idle SECONDS --preload MODULE`` imports a
module and then greets whoever connects to its Unix socket. The request names a directory, an environment and the
arguments of ``python -m MODULE``, and brings four descriptors: the pipe to the worker, the log, the trial's lock, and a
pipe for the wait status. The answer is the id and a descriptor of a new process: a guard (see ``guard.py``) in a
session of its own, which starts the trial once the worker has written a byte to the pipe, and ends it when the worker
is gone. To the guard the trial is what it would be from a fresh interpreter; that this server ends concerns neither.

The server ends when the watched process does, on SIGTERM, and when nobody has asked for so long. It never forks with a
second thread or with CUDA in use: then it says so and ends, and trials start in fresh interpreters.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the directory of this file; a trial has its own there, as after `python -m`

import array
import atexit
import contextlib
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import runpy
import select
import signal
import socket
import struct
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

SPEAKER = "fork server "
"""How a line of its own in the log begins, after the time."""
_HEADER = struct.Struct("!I")
_FDS = 4
_PATIENCE_S = 5.0
_CHECK_S = 0.5
_PR_SET_NAME = 15


def main(arguments: list[str]) -> int:
    """Serves; in a forked guard it runs the trial instead, and the caller must leave at once with the answer.

    Returns:
        The exit code.
    """
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    if os.fork():
        return 0  # nobody's child: Ray kills those of a worker together with it
    os.pwrite(int(options["--lock"]), f"{os.getpid()}\n".encode(), 0)
    server = _Server(
        listener=socket.socket(fileno=int(options["--listen"])),
        watched=os.pidfd_open(int(options["--watch"])),
        idle_s=float(options["--idle"]),
    )
    for fd in ("--listen", "--lock"):
        os.set_inheritable(int(options[fd]), False)
    guard = _load_guard()
    gc.disable()  # it would go through a million objects again and again, none of which ends
    try:
        with server.ending_while_importing():
            importlib.import_module(options["--preload"])
    except Exception as error:  # noqa: BLE001 - whatever it is, trials can do without this server
        traceback.print_exc()
        _say(f"cannot import {options['--preload']}: {type(error).__name__}: {error}")
        return 1
    unfit = _unfit()
    if unfit:
        _say(unfit)
        return 1
    gc.freeze()  # no collection in a trial may touch, and so copy, the pages that all share
    request = server.serve()
    if request is None:
        Path(options["--socket"]).unlink(missing_ok=True)
        return 0
    os.close(int(options["--lock"]))
    return request.run(guard)


class _Server:
    """Waits for requests and forks; ``serve`` returns a request in each forked process."""

    def __init__(self, *, listener: socket.socket, watched: int, idle_s: float) -> None:
        self._listener, self._watched, self._idle_s = listener, watched, idle_s
        self._greeted: list[socket.socket] = []

    @contextlib.contextmanager
    def ending_while_importing(self) -> Iterator[None]:
        """Looks after the watched process by an alarm, since importing takes seconds."""
        signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, _CHECK_S, _CHECK_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def serve(self) -> _Request | None:
        """Answers requests; ``None`` when the server is to end, a request in a process that is to run it."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the guards tell their workers themselves how they ended
        until = time.monotonic() + self._idle_s
        while (left := until - time.monotonic()) > 0:
            asking = {connection.fileno(): connection for connection in self._greeted}
            ready, _, _ = select.select([self._watched, self._listener.fileno(), *asking], [], [], left)
            if self._watched in ready:
                return None
            if self._listener.fileno() in ready and not self._greet():
                return None
            for connection in [asking[fd] for fd in ready if fd in asking]:
                until = time.monotonic() + self._idle_s
                self._greeted.remove(connection)
                with connection:
                    request = self._answer(connection)
                if request is not None:
                    return request
        return None

    def _look(self, *_: object) -> None:
        if select.select([self._watched], [], [], 0)[0]:
            os._exit(0)

    def _greet(self) -> bool:
        """Tells whoever connects that a request will be answered at once; False when none may be any more."""
        connection, _ = self._listener.accept()
        connection.settimeout(_PATIENCE_S)
        unfit = _unfit()
        try:
            if _peer_uid(connection) == os.geteuid():
                _send(connection, {"error": unfit} if unfit else {"ready": os.getpid()})
                self._greeted.append(connection)
            else:
                connection.close()
        except OSError:
            connection.close()
        if unfit:
            _say(unfit)
        return not unfit

    def _answer(self, connection: socket.socket) -> _Request | None:
        """Takes a request and forks; the request is the answer in the forked process alone."""
        try:
            request = _Request.receive(connection)
        except ConnectionResetError:
            return None  # it has found another way
        except (OSError, ValueError) as error:
            _say(f"a request cannot be read: {error}")
            return None
        try:
            pid = os.fork()
            if pid == 0:
                for held in (self._listener, *self._greeted):
                    held.close()
                os.close(self._watched)
                return request
            self._promise(connection, pid)
        except OSError as error:
            _say(f"a request failed: {error}")
        request.close()
        return None

    def _promise(self, connection: socket.socket, pid: int) -> None:
        handle = os.pidfd_open(pid)
        try:
            _send(connection, {"pid": pid}, (handle,))
        finally:
            os.close(handle)


class _Request:
    """One trial to start."""

    def __init__(self, content: dict[str, object], fds: list[int]) -> None:
        self._content, self._fds = content, fds

    @classmethod
    def receive(cls, connection: socket.socket) -> _Request:
        """Reads a request.

        Raises:
            OSError: If it does not come in time.
            ValueError: If it is not a whole one.
        """
        header, fds, _, _ = socket.recv_fds(connection, _HEADER.size, _FDS)
        try:
            if not header:
                raise ConnectionResetError
            if len(header) < _HEADER.size or len(fds) != _FDS:
                raise ValueError(f"{len(header)} bytes and {len(fds)} descriptors instead of a request")
            left, parts = _HEADER.unpack(header)[0], []
            while left:
                part = connection.recv(min(left, 1 << 16))
                if not part:
                    raise ValueError("it was cut short")
                parts.append(part)
                left -= len(part)
            return cls(json.loads(b"".join(parts)), fds)
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise

    def close(self) -> None:
        """Gives the descriptors up."""
        for fd in self._fds:
            os.close(fd)

    def run(self, guard: ModuleType) -> int:
        """Becomes the guard of the trial; returns the exit code once everything below it has ended."""
        pipe, log, lock, status = self._fds
        os.setsid()
        for fd, place in ((pipe, 0), (log, 1), (log, 2)):
            os.dup2(fd, place)
        os.close(pipe)
        os.close(log)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        command = ["-m", str(self._content["module"]), *self._content["arguments"]]  # type: ignore[misc]
        _rename("autotune-guard", [sys.executable, str(guard.__file__), "--", *command])
        if not os.read(0, 1):
            return 0  # whoever asked has not heard the answer, and starts the trial in another way
        environment = dict(self._content["env"])  # type: ignore[call-overload]
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(str(self._content["cwd"]))

        watch = guard.Guard(float(str(self._content["grace_s"])), by_pipe=True)

        def spawn() -> int:
            pid = os.fork()
            if pid == 0:
                watch.leave()
                os.close(lock)
                os.close(status)
                _become_trial(str(self._content["module"]), list(self._content["arguments"]))  # type: ignore[call-overload]
            return pid

        ended = watch.run(spawn)
        os.write(status, str(ended).encode())
        return int(guard.pass_on(ended))


def _become_trial(module: str, arguments: list[str]) -> None:
    """Runs ``python -m MODULE ARGUMENTS`` in this process and ends it; never returns."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _rename(module, [sys.executable, "-m", module, *arguments])
        gc.enable()
        if "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed()  # as in a new interpreter, no two trials share its state
        if not sys.flags.safe_path:
            sys.path.insert(0, str(Path.cwd()))
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        if leaving.code is not None and not isinstance(leaving.code, int):
            sys.stderr.write(f"{leaving.code}\n")
    except BaseException:  # noqa: BLE001 - printed as the interpreter would
        traceback.print_exc()
    finally:
        # What an interpreter does at its end, but for taking a million objects apart, which would copy their pages.
        with contextlib.suppress(BaseException):
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _unfit() -> str:
    """Why this process must not fork; empty when it may."""
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        return f"the imports started {threads - 1} threads"
    cuda = sys.modules.get("torch.cuda")
    if cuda is not None and cuda.is_initialized():
        return "the imports initialised CUDA"
    return ""


def _rename(name: str, command: list[str]) -> None:
    """Lets ``ps`` show what this process is: the short name, and the command line where there is room for it."""
    library = ctypes.CDLL(None)
    library.prctl(_PR_SET_NAME, name[:15].encode(), 0, 0, 0)
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])
        line = b"\0".join(word.encode() for word in command) + b"\0"
        if 0 < len(line) <= end - start:
            ctypes.memmove(start, line.ljust(end - start, b"\0"), end - start)


def _peer_uid(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def _send(connection: socket.socket, content: dict[str, object], fds: tuple[int, ...] = ()) -> None:
    payload = json.dumps(content).encode()
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    connection.sendmsg([_HEADER.pack(len(payload)) + payload], ancillary)


def _load_guard() -> ModuleType:
    """The guard from the file beside this one, without importing this package into the trials."""
    spec = importlib.util.spec_from_file_location("autotune_guard", Path(__file__).resolve().with_name("guard.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {SPEAKER}{os.getpid()}: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
