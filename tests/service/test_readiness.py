import os
import shutil
import socket
from collections import namedtuple

import pytest

from autotune.errors import UnreachableError
from autotune.service.readiness import components
from autotune.settings import Settings
from autotune.states import JobState


def fine():
    """A database that answers."""


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_service_of_its_own_stands_on_its_database_and_its_disk(tmp_path):
    assert components(Settings(home=tmp_path), fine) == {"database": "ok", "home": "ok", "disk": "ok"}


def test_a_cluster_and_a_tracking_server_are_looked_at_where_there_are_some(tmp_path, listener, closed_port):
    there = Settings(
        home=tmp_path, ray_address=f"127.0.0.1:{listener}", mlflow_uri=f"http://127.0.0.1:{listener}/mlflow"
    )
    assert {components(there, fine)[name] for name in ("ray", "mlflow")} == {"ok"}
    away = Settings(home=tmp_path, ray_address=f"127.0.0.1:{closed_port}", mlflow_uri=f"http://127.0.0.1:{closed_port}")
    found = components(away, fine)
    assert found["ray"].startswith(f"the Ray cluster at 127.0.0.1:{closed_port} does not answer")
    assert found["mlflow"].startswith("the MLflow server does not answer")
    assert found["database"] == "ok"


def test_a_database_that_is_away_is_told_of(tmp_path):
    def away():
        raise UnreachableError("the database does not answer.")

    assert components(Settings(home=tmp_path), away)["database"] == "the database does not answer."


def test_a_disk_that_is_nearly_full_is_told_of(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1 << 40, 1 << 40, 5 << 20))
    assert components(Settings(home=tmp_path), fine)["disk"].startswith("5 MiB are free where")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_cannot_be_written_is_told_of(tmp_path):
    tmp_path.chmod(0o500)
    assert "cannot be written" in components(Settings(home=tmp_path), fine)["home"]


def test_a_queued_job_says_what_it_waits_for_until_it_runs(service, source):
    job = service.submit(source, "space.yaml")[0].id
    assert service.job(job).waits == ""
    with service.store.begin() as work:
        lease = work.jobs.lease(job, "tester/0/x", service.clock.now(), 60.0)
        work.jobs.set_state(job, JobState.RUNNING, service.clock.now(), lease=lease)
    assert service.job(job).waits == ""
    with service.store.begin() as work:
        reason = "waits: Ray does not answer. It is tried again."
        work.jobs.set_state(job, JobState.QUEUED, service.clock.now(), reason=reason, lease=lease)
    assert service.job(job).waits == "Ray does not answer. It is tried again."
    with service.store.begin() as work:
        work.jobs.set_state(job, JobState.RUNNING, service.clock.now(), lease=lease)
        work.jobs.set_state(job, JobState.QUEUED, service.clock.now(), reason="interrupted", lease=lease)
    assert service.job(job).waits == ""
