"""Everything that a service stands on, each part as real as in production, and a hand that kills it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx2
from sqlalchemy import make_url

from autotune.client import Client
from autotune.errors import AutotuneError
from tests.e2e.ray_cluster import RayCluster, marked
from tests.e2e.support import Home, wait_until
from tests.postgres import PostgresServer

STEPS = 12
SPACE = textwrap.dedent("""
    name: {name}
    trainer:
      backend: command
      command: [{python}, {program}, "--lr={{lr}}", "--steps={{steps}}", "--seed={{seed}}", "--output={{output_dir}}"]
      parameters: {{lr: 0.001}}
      metrics: {{read: jsonl, names: [loss]}}
      steps: {steps}
    search:
      lr: {{float: [1e-4, 1e-1], log: true}}
    objective: {{metric: loss, direction: minimize}}
    budget: {{trials: {trials}, parallel: 2}}
    retry: {{attempts: 20, on: [node, port_in_use, crash]}}
""")


class World:
    """A service on PostgreSQL and on a Ray cluster, with jobs that do nearly nothing.

    Args:
        home: Its home directory.
        postgres: The database server.
        cluster: A running Ray cluster.
        port: Where the service listens.
        dice: Decides who is killed, and when.
    """

    def __init__(
        self, home: Home, postgres: PostgresServer, cluster: RayCluster, port: int, dice: random.Random
    ) -> None:
        self.home, self.postgres, self.cluster, self._dice = home, postgres, cluster, dice
        self.database = postgres.fresh()
        self.root = home.path
        self.tracking = f"sqlite:///{home.path / 'mlflow.db'}"
        self.url = f"http://127.0.0.1:{port}"
        self.jobs: list[str] = []
        self.killed: Counter[str] = Counter()
        self._port = port
        self._service: subprocess.Popen[bytes] | None = None
        self._victims: dict[str, Callable[[], list[int]]] = {
            "service": lambda: [self._service.pid] if self._service else [],
            "driver": lambda: self._ours("autotune.service.driver"),
            "Ray worker": lambda: self.cluster.of_nodes("ray::_Slot"),
            "raylet": lambda: self.cluster.of_nodes("raylet/raylet"),
            "trial": lambda: self._ours("chaos/train.py"),
            "Ray head": lambda: self.cluster.of_head("gcs_server") if self.unfinished() else [],
            "PostgreSQL backend": lambda: self.postgres.backends(make_url(self.database).database or ""),
        }

    def start_service(self) -> None:
        """Starts `autotune serve`, as whatever watches over it does after it died."""
        env = {
            **self.home.env,
            "AUTOTUNE_DATABASE_URL": self.database,
            "AUTOTUNE_RAY_ADDRESS": self.cluster.address,
            "AUTOTUNE_JOBS": "2",
            "AUTOTUNE_GRACE_S": "2",
            "AUTOTUNE_LEASE_S": "10",
            "RAY_AUTH_MODE": "disabled",
            "OMP_NUM_THREADS": "1",
        }
        with (self.home.path.parent / "serve.log").open("ab") as log:
            self._service = subprocess.Popen(
                [sys.executable, "-m", "autotune.cli.main", "serve", "--port", str(self._port)],
                env=env,
                cwd=self.home.path.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(self._ready, 300, f"the service is ready: {(self.home.path.parent / 'serve.log').read_text()}")

    def stop_service(self) -> None:
        """Ends the service as an operator does."""
        if self._service is not None:
            self._service.send_signal(signal.SIGTERM)
            self._service.wait(120)
            self._service = None

    def submit(self, trials: int) -> None:
        """One more job."""
        name = f"chaos{len(self.jobs)}"
        program = Path(__file__).with_name("train.py")
        source = SPACE.format(name=name, python=sys.executable, program=program, steps=STEPS, trials=trials)
        key = f"key-{name}"
        wait_until(lambda: self._submit(source, key), 300, f"job {name} is submitted")

    def strike(self) -> None:
        """Kills somebody, and lets come back what a machine would bring back; each kind as often as any other."""
        least = min(self.killed[kind] for kind in self._victims)
        kind = self._dice.choice([kind for kind in self._victims if self.killed[kind] == least])
        wait_until(lambda: bool(self._victims[kind]()), 300, f"there is a {kind} to kill")
        victims = self._victims[kind]()
        if not victims:  # it ended by itself in between
            return
        victim = self._dice.choice(sorted(victims))
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.killed[kind] += 1
        if kind == "service":
            assert self._service is not None
            self._service.wait()
            self.start_service()
        elif kind == "raylet":
            self.cluster.start_node()
        elif kind == "Ray head":
            # What its machine ran is gone with it, and the nodes go too. The jobs wait until there is a cluster again.
            self.cluster.kill()
            wait_until(self._somebody_waits, 300, "a job says that it waits for Ray")
            self.cluster.start_head()
            self.cluster.start_node()

    def placement_groups(self) -> list[str]:
        """What Ray still holds for jobs that have ended."""
        return self.cluster.placement_groups()

    def unfinished(self) -> list[str]:
        """The jobs that have not ended; all of them while the service cannot say."""
        try:
            with Client(self.url) as client:
                return [job for job in self.jobs if client.job(job).state not in ("completed", "failed", "cancelled")]
        except AutotuneError:
            return list(self.jobs)

    def strays(self) -> dict[int, str]:
        """What still runs of the trials, the drivers and the service."""
        return {
            pid: line for pid, line in marked("AUTOTUNE_HOME", str(self.home.path)).items() if "ray::" not in line
        } | {
            pid: line
            for pid, line in self.cluster.processes().items()
            if str(self.home.path) in line or "guard" in line
        }

    def _somebody_waits(self) -> bool:
        try:
            with Client(self.url) as client:
                assert client.ready()["ray"] != "ok"
                return any("Ray" in client.job(job).waits for job in self.jobs)
        except AutotuneError:
            return False

    def _ours(self, what: str) -> list[int]:
        found = marked("AUTOTUNE_HOME", str(self.home.path)) | self.cluster.processes()
        return [pid for pid, line in found.items() if what in line and "guard" not in line]

    def _ready(self) -> bool:
        assert self._service is not None
        if self._service.poll() is not None:
            # The database may be coming back at this very moment; whatever watches over it tries again.
            self.start_service()
        try:
            return httpx2.get(f"{self.url}/livez", timeout=2).status_code == 200
        except httpx2.TransportError:
            return False

    def _submit(self, source: str, key: str) -> bool:
        try:
            with Client(self.url) as client:
                self.jobs.append(client.submit(source, file="space.yaml", idempotency_key=key).id)
        except AutotuneError:
            return False
        return True
