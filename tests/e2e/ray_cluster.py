"""A Ray cluster of several nodes on this machine, started as a person would start it: with `ray start`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.support import wait_until

MARK = "CLUSTER_OF_THE_TEST"
"""Environment variable that tells this cluster's processes from others; what Ray starts inherits it."""
_QUIET = {
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_AUTH_MODE": "disabled",
    "OMP_NUM_THREADS": "1",
}
HEAD = ("ray", "start", "--head", "--port=6379", "--num-cpus=0", "--include-dashboard=false")
NODE = ("ray", "start", "--address=ray-head:6379", "--num-cpus=2")
_GROUPS = """
import json, sys, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
print(json.dumps([name for name, group in ray.util.placement_group_table().items() if group["state"] != "REMOVED"]))
"""
_HERE = ("--min-worker-port=0", "--max-worker-port=0", f"--object-store-memory={80 << 20}")


def marked(name: str, value: str) -> dict[int, str]:
    """Process id -> command line of the living processes whose environment has this variable."""
    found = {}
    wanted = f"{name}={value}".encode()
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (directory / "environ").read_bytes().split(b"\0"):
                line = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                if line:
                    found[int(directory.name)] = line
        except OSError:
            continue
    return found


class RayCluster:
    """A head without slots and nodes that have them.

    Args:
        home: A short directory for Ray's sockets and logs.
        env: Further variables for Ray's processes.
    """

    def __init__(self, home: Path, env: Mapping[str, str] | None = None) -> None:
        self._home = home
        self._id = home.name
        self._env = {**_QUIET, **(env or {})}
        self._port = str(_free_port())
        self.address = ""

    def start_head(self, command: Sequence[str] = HEAD) -> None:
        """Starts the head with a command as a person would write it, on a port that is free."""
        options = [part.replace("6379", self._port) for part in command]
        done = self._ray(f"{self._id}-head", [*options, f"--temp-dir={self._home}"])
        ip = re.search(r"Local node IP: (\S+)", done.stdout)
        assert ip is not None, done.stdout
        assert done.returncode == 0, done.stdout
        self.address = f"{ip[1]}:{self._port}"

    def start_node(self, command: Sequence[str] = NODE) -> None:
        """Starts one more node; again where the head is too busy to answer in time."""
        options = [part.replace("ray-head:6379", self.address) for part in command]
        wait_until(lambda: self._ray(self._id, options).returncode == 0, 240, "another node of Ray has started")

    def processes(self) -> dict[int, str]:
        """Process id -> command line of everything that Ray runs here."""
        return marked(MARK, self._id) | marked(MARK, f"{self._id}-head")

    def of_nodes(self, kind: str) -> list[int]:
        """The processes of the nodes (not of the head) whose command line has ``kind``."""
        return [pid for pid, line in marked(MARK, self._id).items() if kind in line]

    def of_head(self, kind: str) -> list[int]:
        """The head's processes whose command line has ``kind``."""
        return [pid for pid, line in marked(MARK, f"{self._id}-head").items() if kind in line]

    def placement_groups(self) -> list[str]:
        """The placement groups that are not removed."""
        done = subprocess.run(
            [sys.executable, "-c", _GROUPS, self.address],
            env={**os.environ, **self._env},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        found: list[str] = json.loads(done.stdout.splitlines()[-1])
        return found

    def kill(self) -> None:
        """Kills everything, as when the machines lose their power, and waits until it is gone."""
        wait_until(lambda: not [_kill(pid) for pid in self.processes()], 30, "the Ray cluster has ended")

    def stop(self) -> None:
        """Ends everything for good."""
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    def _ray(self, mark: str, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        assert list(command[:2]) == ["ray", "start"], command
        # In the background: several nodes of one machine share it.
        options = [part for part in command[2:] if part != "--block"]
        return subprocess.run(
            [str(Path(sys.executable).with_name("ray")), "start", *options, *_HERE],
            env={**os.environ, **self._env, MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )


@contextmanager
def ray_cluster() -> Iterator[RayCluster]:
    """A head and one node."""
    cluster = RayCluster(Path(tempfile.mkdtemp(prefix="atray")))
    try:
        cluster.start_head()
        cluster.start_node()
        yield cluster
    finally:
        cluster.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _kill(pid: int) -> int:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return 0
    return pid
