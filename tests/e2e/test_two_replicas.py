"""The topology of docker-compose.yml by hand, with its own commands and environments, and a replica that is killed.

Instead of containers there are processes on this machine: names of services become addresses here, ports become free
ones, and paths lie below a temporary directory. ``join-ray`` is left out, since this machine is a node already.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from autotune.client import Client
from tests.compose import command, compose, environment
from tests.e2e.chaos.audit import Audit, mirrored
from tests.e2e.chaos.world import SPACE, STEPS
from tests.e2e.ray_cluster import RayCluster, marked
from tests.e2e.support import wait_until
from tests.postgres import postgres_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

TRIALS = 6
REPLICAS = ("first", "second")
MARK = "TOPOLOGY_OF_THE_TEST"


class Topology:
    """The services of the compose file as processes.

    Args:
        root: For everything that they write; short, since Ray puts sockets there.
        database: URL of the study database.
        tracking: URL of MLflow's database.
    """

    def __init__(self, root: Path, database: str, tracking: str) -> None:
        self.place, self.database = root, database
        self.ports = {name: _free_port() for name in ("mlflow", *REPLICAS)}
        self.document = compose(
            {"POSTGRES_PASSWORD": "x", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4, "GRAFANA_PASSWORD": "x"}
        )
        self.root = root / "autotune"
        self.tracking = f"http://127.0.0.1:{self.ports['mlflow']}"
        self.jobs: list[str] = []
        self.cluster: RayCluster | None = None
        self._replaced = {
            "postgresql+psycopg://autotune:x@postgres/mlflow": tracking.replace("postgresql:", "postgresql+psycopg:"),
            "postgresql://autotune:x@postgres/autotune": database,
            "http://mlflow:5000": self.tracking,
            "/var/lib/mlflow": str(root / "mlflow"),
            "/var/lib/autotune": str(self.root),
            "0.0.0.0": "127.0.0.1",
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, service: str, ports: dict[str, str]) -> subprocess.Popen[bytes]:
        """Starts a service with its own command and environment."""
        argv = [self._here(part, ports) for part in command(self.document, service) if part != "join-ray"]
        env = {key: self._here(value, ports) for key, value in environment(self.document, service).items()}
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("AUTOTUNE_", "MLFLOW_"))}
        argv[0] = str(Path(sys.executable).with_name(argv[0]))
        with (self.place / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                argv,
                env={**kept, **env, "OMP_NUM_THREADS": "1", MARK: str(self.place), "AUTOTUNE_LEASE_S": "10"},
                cwd=self.place,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self.processes[name]

    def answers(self, name: str, url: str) -> bool:
        """Whether something that was started answers by now."""
        assert self.processes[name].poll() is None, (self.place / f"{name}.log").read_text()
        try:
            return httpx2.get(url, timeout=2).status_code == 200
        except httpx2.TransportError:
            return False

    def driver(self) -> tuple[str, int] | None:
        """The replica that drives, and its driver."""
        for pid, line in marked(MARK, str(self.place)).items():
            for name in REPLICAS:
                replica = self.processes.get(name)
                if (
                    replica is not None
                    and "autotune.service.driver" in line
                    and f"--parent {replica.pid} " in f"{line} "
                ):
                    return name, pid
        return None

    def url(self, name: str) -> str:
        """Where a replica listens."""
        return f"http://127.0.0.1:{self.ports[name]}"

    def strays(self) -> dict[int, str]:
        """What still runs of the replicas, the drivers and the trials."""
        assert self.cluster is not None
        found = marked(MARK, str(self.place)) | self.cluster.processes()
        return {pid: line for pid, line in found.items() if str(self.root) in line or "autotune." in line}

    def placement_groups(self) -> list[str]:
        """What Ray still holds for jobs that have ended."""
        assert self.cluster is not None
        return self.cluster.placement_groups()

    def stop(self) -> None:
        """Ends everything."""
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _here(self, text: str, ports: dict[str, str]) -> str:
        for there, here in {**self._replaced, **ports}.items():
            text = text.replace(there, here)
        return text


@pytest.fixture(scope="module")
def topology() -> Iterator[Topology]:
    root = Path(tempfile.mkdtemp(prefix="attop"))
    with postgres_server() as postgres:
        topology = Topology(root, postgres.fresh(), postgres.fresh())
        cluster = RayCluster(Path(tempfile.mkdtemp(prefix="atray")), environment(topology.document, "ray-head"))
        try:
            topology.start("mlflow", "mlflow", {"5000": str(topology.ports["mlflow"])})
            cluster.start_head(command(topology.document, "ray-head"))
            cluster.start_node(command(topology.document, "ray-cpu-worker"))
            topology.cluster = cluster
            wait_until(lambda: topology.answers("mlflow", f"{topology.tracking}/health"), 400, "MLflow answers")
            for name in REPLICAS:
                topology.start(name, "service", {"8765": str(topology.ports[name]), "ray-head:6379": cluster.address})
            for name in REPLICAS:
                wait_until(lambda n=name: topology.answers(n, f"{topology.url(n)}/readyz"), 400, f"{name} is ready")
            yield topology
        finally:
            topology.stop()
            cluster.stop()
            shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
def killed(topology: Topology) -> tuple[str, str]:
    """The replica that drove the job and was killed in the middle, and the one that is left."""
    program = Path(__file__).parent / "chaos" / "train.py"
    source = SPACE.format(name="shared", python=sys.executable, program=program, steps=STEPS, trials=TRIALS)
    with Client(topology.url("first")) as client:
        job = client.submit(source, file="space.yaml").id
        topology.jobs.append(job)
        wait_until(lambda: client.job(job).trials.get("completed", 0) >= 1, 500, "a trial has completed")
        assert client.job(job).state == "running"
    found = topology.driver()
    assert found is not None
    dead, driver = found
    left = next(name for name in REPLICAS if name != dead)
    topology.processes[dead].send_signal(signal.SIGKILL)
    topology.processes[dead].wait()
    wait_until(lambda: driver not in marked(MARK, str(topology.place)), 90, "its driver has ended with it")
    with Client(topology.url(left)) as client:
        wait_until(lambda: client.job(job).state == "completed", 700, "the job has completed on the other")
    return dead, left


def test_the_job_ends_on_the_replica_that_is_left(topology: Topology, killed: tuple[str, str]):
    dead, left = killed
    assert topology.processes[dead].returncode == -signal.SIGKILL
    assert topology.processes[left].poll() is None
    with Client(topology.url(left)) as client:
        job = client.job(topology.jobs[0])
        ends = [(trial.number, trial.state, trial.error and trial.error.message) for trial in client.all_trials(job.id)]
        assert ends == [(number, "completed", None) for number in range(TRIALS)]
        assert job.state == "completed"
        texts = [event.text for event in client.events(job.id)]
    assert any("its driver is gone" in text for text in texts)


def test_the_results_are_whole_in_the_store_in_optuna_and_in_mlflow(topology: Topology, killed: tuple[str, str]):
    wait_until(lambda: mirrored(topology.database), 400, "Optuna and MLflow have caught up")
    replica = topology.processes[killed[1]]
    replica.send_signal(signal.SIGTERM)
    assert replica.wait(90) in (0, -signal.SIGTERM), "uvicorn passes the signal on once it has shut down"
    audit = Audit(topology)
    assert audit.trials == TRIALS
    assert audit.unexplained == []
    assert audit.lost == []
    assert audit.duplicates == []
    assert audit.orphans == []
    assert audit.budgets == []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
