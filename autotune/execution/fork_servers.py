"""Finds the fork server of this machine that fits a command, or starts it, and waits until it is ready."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autotune.backends.base import Command
from autotune.execution import fork_server
from autotune.execution.forked_guard import NotWarmError, ReadyServer, receive

PATIENCE_S = 180.0
"""How long a server may take to import, on a machine that is busy."""
_ANSWER_S = 20.0
_ASK_AGAIN_S = 0.05
_DYING_S = 5.0
_LATE = ("RAY_", "AUTOTUNE_", "TUNE_", "MLFLOW_")
_LATE_NAMES = frozenset(
    {
        *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
        *("PYTHONBREAKPOINT", "SPT_NOENV", "PL_DISABLE_FORK", "PWD", "OLDPWD", "SHLVL", "_"),
    }
)
"""What nothing reads while modules are imported: it differs from trial to trial, or from a driver to its workers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WarmPlace:
    """Where the fork servers of a machine are found.

    Attributes:
        directory: A directory for this user alone; its path must leave room for a socket's name (107 bytes in all).
        watched: The process with which they end.
        idle_s: Seconds without a request after which one ends.
    """

    directory: Path
    watched: int
    idle_s: float


def warm_place(root: Path, *, watched: int, idle_s: float) -> WarmPlace:
    """The place below a directory that every process of this user on this machine finds."""
    return WarmPlace(directory=root / f"warm-{os.geteuid()}", watched=watched, idle_s=idle_s)


class ForkServers:
    """Finds the server that fits a command, or starts it. Belongs to one worker.

    Args:
        place: Where they are.
    """

    def __init__(self, place: WarmPlace) -> None:
        self._place = place
        self._waiting: dict[str, socket.socket] = {}
        self._since: dict[str, float] = {}
        self._started: set[str] = set()
        self._hopeless: dict[str, str] = {}

    def ready(self, command: Command, env: Mapping[str, str], until: float) -> ReadyServer | None:
        """A server that is ready; ``None`` when none is by then, so that one may ask again.

        Args:
            command: With the module to import ahead.
            env: The whole environment of the trial.
            until: Monotonic time.

        Raises:
            NotWarmError: If there will be none.
        """
        key = _key(command, env)
        if key in self._hopeless:
            raise NotWarmError(self._hopeless[key])
        since = self._since.setdefault(key, time.monotonic())
        while True:
            try:
                answer = self._ask(key, command, env, until)
            except (OSError, ValueError) as error:
                raise self._given_up(key, f"no fork server can be started: {error}") from error
            if answer is not None:
                del self._since[key]
                return answer
            now = time.monotonic()
            if now > since + PATIENCE_S:
                raise self._given_up(key, f"the fork server was not ready within {PATIENCE_S:.0f} s")
            if now >= until:
                return None

    def start(self, command: Command, env: Mapping[str, str]) -> None:
        """Lets a server import ahead of the first trial, if none is there; failing is no harm."""
        with contextlib.suppress(OSError):
            _private(self._place.directory)
            self._spawn(_key(command, env), command, env)

    def end(self) -> None:
        """Ends the servers that were started here."""
        self.close()
        for key in self._started:
            with contextlib.suppress(OSError, ValueError), self._lock(key) as held:
                if held:
                    os.kill(int(self._path(key, ".lock").read_text()), signal.SIGTERM)
        until = time.monotonic() + _DYING_S
        for key in self._started:
            while self._is_alive(key) and time.monotonic() < until:
                select.select([], [], [], _ASK_AGAIN_S)

    def close(self) -> None:
        """Gives up waiting; the servers stay, for others."""
        for connection in self._waiting.values():
            connection.close()
        self._waiting.clear()

    def _ask(self, key: str, command: Command, env: Mapping[str, str], until: float) -> ReadyServer | None:
        connection = self._waiting.get(key) or self._connect(key)
        if connection is None:
            if not self._spawn(key, command, env):  # another worker's server is about to listen, or to end
                select.select([], [], [], _ASK_AGAIN_S)
            return None
        self._waiting[key] = connection
        if not select.select([connection], [], [], max(0.0, until - time.monotonic()))[0]:
            return None
        del self._waiting[key]
        try:
            greeting, _ = receive(connection)
        except (OSError, ValueError):
            connection.close()
            self._check_alive(key)
            return None
        if "ready" not in greeting:
            connection.close()
            raise self._given_up(key, f"the fork server cannot fork: {greeting.get('error')}")
        return ReadyServer(connection)

    def _check_alive(self, key: str) -> None:
        """A server that ended by itself before it was ready will do so again; one that was killed is replaced."""
        said = self._path(key, ".log").read_text("utf-8", "replace").splitlines()[-1:]
        if said and fork_server.SPEAKER in said[0]:
            why = said[0].partition(fork_server.SPEAKER)[2].partition(": ")[2]
            raise self._given_up(key, f"the fork server ended: {why} (see {self._path(key, '.log')})")

    def _path(self, key: str, suffix: str = "") -> Path:
        return self._place.directory / f"{key}{suffix}"

    @contextlib.contextmanager
    def _lock(self, key: str) -> Iterator[bool]:
        """Tries to take the lock that a server holds as long as it lives; says whether one does."""
        with self._path(key, ".lock").open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield True
            else:
                yield False

    def _is_alive(self, key: str) -> bool:
        try:
            with self._lock(key) as held:
                return held
        except OSError:
            return False

    def _given_up(self, key: str, why: str) -> NotWarmError:
        self._hopeless[key] = why
        return NotWarmError(why)

    def _connect(self, key: str) -> socket.socket | None:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_ANSWER_S)
        try:
            _private(self._place.directory)
            connection.connect(str(self._path(key)))
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        except BaseException:
            connection.close()
            raise
        return connection

    def _spawn(self, key: str, command: Command, env: Mapping[str, str]) -> bool:
        """Starts a server that can be connected to at once; False when another worker is doing so."""
        path = self._path(key)
        lock = os.open(self._path(key, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with contextlib.ExitStack() as here:
            here.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            path.unlink(missing_ok=True)
            listener = here.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(path))
            listener.listen(64)
            log = here.enter_context(self._path(key, ".log").open("wb"))
            subprocess.run(  # returns at once: the server itself is nobody's child
                [
                    *(command.argv[0], fork_server.__file__, "--preload", command.preload),
                    *("--socket", str(path), "--listen", str(listener.fileno()), "--lock", str(lock)),
                    *("--watch", str(self._place.watched), "--idle", str(self._place.idle_s)),
                ],
                cwd="/",
                env={name: value for name, value in env.items() if not _late(name)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(listener.fileno(), lock),
                check=False,
            )
        self._started.add(key)
        return True


def can_fork(command: Command) -> bool:
    """Whether a command can be forked from a process that has imported its module, on this machine."""
    return (
        bool(command.preload)
        and sys.platform == "linux"
        and hasattr(os, "pidfd_open")
        and list(command.argv[:2]) == [sys.executable, "-m"]
    )


def _key(command: Command, env: Mapping[str, str]) -> str:
    """What must be equal for a server to fit: the interpreter, what is imported, and what an import may read."""
    seen = sorted((name, value) for name, value in env.items() if not _late(name))
    known = json.dumps([command.argv[0], command.preload, seen, _newest(command.preload)])
    return hashlib.sha256(known.encode()).hexdigest()[:12]


def _late(name: str) -> bool:
    return name in _LATE_NAMES or name.startswith(_LATE)


def _newest(module: str) -> list[int]:
    """When the code was last changed: that of the module's package, and what is installed beside this project."""
    spec = importlib.util.find_spec(module.partition(".")[0])
    roots = list(spec.submodule_search_locations or ()) if spec else []
    files = [path.stat().st_mtime_ns for root in roots for path in Path(root).rglob("*.py")]
    installed = [
        Path(place).stat().st_mtime_ns for place in sys.path if place.endswith("-packages") and Path(place).is_dir()
    ]
    return [max(files, default=0), max(installed, default=0)]


def _private(directory: Path) -> None:
    """Makes the directory; refuses one that others can reach.

    Raises:
        OSError: If it is not ours alone.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(
            f"{directory} is not a directory of this user alone (mode {stat.filemode(found.st_mode)})"
        )
