"""MLflow's own server as a child of this process, over the tracking store that the settings name."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from autotune.errors import ConflictError, NotFoundError, UnreachableError, UsageError

if TYPE_CHECKING:
    from autotune.settings import Settings

# MLflow asks for no token, so it is never offered to other machines.
HOST = "127.0.0.1"
_GRACE_S = 5.0
_PATIENCE_S = 180.0
_LOOK_S = 0.2
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # Its queue of background jobs would be more processes, for features that autotune does not use.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}


def served_elsewhere(settings: Settings) -> str | None:
    """The address of the MLflow server that the settings name; ``None`` when they name a database or a directory."""
    uri = settings.tracking_uri
    return uri if uri.startswith(("http://", "https://")) else None


class MlflowServer:
    """Runs ``mlflow server`` from ``with`` to its end; it also ends when this process is killed.

    Args:
        settings: Where the tracking store and the home directory are.
        port: Port to listen on; 0 = any free one.

    Raises:
        NotFoundError: If MLflow is not installed.
        ConflictError: If the port is taken.
    """

    def __init__(self, settings: Settings, port: int) -> None:
        if find_spec("mlflow") is None:
            raise NotFoundError(
                "MLflow is not installed in this environment, so its page cannot be shown.",
                hint="Install it with: pip install mlflow. Or start the service without it: autotune serve",
            )
        self._uri = settings.tracking_uri
        self._root = settings.root
        self.log = self._root / "mlflow.log"
        self.url = f"http://{HOST}:{_free(port)}"
        self._ending = False
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> MlflowServer:
        # The guard ends the server's whole family, also when nobody is left to ask for it.
        from autotune.execution import guard

        port = self.url.rpartition(":")[2]
        argv = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", self._uri, "--host", HOST]
        argv += ["--port", port, "--workers", "1"]
        argv += ["--artifacts-destination", (self._root / "mlflow-artifacts").as_uri()]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, "--grace", str(_GRACE_S), "--", *argv],
                cwd=self._root,
                env={**os.environ, **_ENVIRONMENT},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._ending = True
        self._process.stdin.close()
        try:
            self._process.wait(timeout=_GRACE_S + 5)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def wait_until_ready(self) -> None:
        """Returns once the server answers.

        Raises:
            UnreachableError: If it ended, or stays silent for three minutes.
        """
        import time
        from urllib.error import URLError
        from urllib.request import urlopen

        assert self._process is not None
        pause, end = threading.Event(), time.monotonic() + _PATIENCE_S
        while self._process.poll() is None and time.monotonic() < end:
            try:
                with urlopen(f"{self.url}/health", timeout=5):
                    return
            except (URLError, OSError):
                pause.wait(_LOOK_S)
        happened = "did not answer in time" if self._process.poll() is None else "ended at once"
        raise UnreachableError(
            f"MLflow's server over {self._uri} {happened}: {_last_line(self.log)}",
            hint=f"Its log is {self.log}. After an upgrade of MLflow run: mlflow db upgrade {self._uri}",
        )

    def tell_when_it_ends(self) -> None:
        """Warns when the server ends before it was told to; the service goes on without it."""

        def look() -> None:
            assert self._process is not None
            code = self._process.wait()
            if not self._ending:
                from autotune.cli.output import warn

                warn(f"MLflow's server ended with exit code {code}, everything else goes on; its log is {self.log}")

        threading.Thread(target=look, name="mlflow-watch", daemon=True).start()


def _free(port: int) -> int:
    """The port, or a free one for 0.

    Raises:
        ConflictError: If another process has it.
        UsageError: If the system does not let us have it.
    """
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError as error:
            raise UsageError(
                f"port {port} may not be used for MLflow: {error.strerror}.",
                hint="Choose a port above 1023 with --mlflow-port.",
            ) from error
        except OSError as error:
            raise ConflictError(
                f"MLflow cannot listen on {HOST}:{port}: {error.strerror}.",
                hint=f"Choose another port: autotune up --mlflow-port {port + 1 if port < 65535 else 5000}",
            ) from error
        return int(probe.getsockname()[1])


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
