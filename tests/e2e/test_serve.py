from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import httpx2
import pytest

from autotune.client import Client
from autotune.errors import ConflictError, InvalidSpaceError, NotFoundError
from tests.e2e.support import SPACE, Home, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def url(home: Home, free_port: int) -> Iterator[str]:
    address = f"http://127.0.0.1:{free_port}"
    process = home.start("serve", "--port", str(free_port))

    def answers() -> bool:
        assert process.poll() is None, process.communicate()
        try:
            return httpx2.get(f"{address}/readyz", timeout=2).status_code == 200
        except httpx2.TransportError:
            return False

    wait_until(answers, 60, "the service is ready")
    yield address
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=90)


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Client]:
    with Client(url) as client:
        yield client


@pytest.fixture(scope="module")
def job(client: Client) -> str:
    job = client.submit(SPACE, file="space.yaml", idempotency_key="one")
    assert client.submit(SPACE, file="space.yaml", idempotency_key="one").id == job.id
    client.wait(job.id, timeout=400)
    return job.id


def test_a_job_over_http_runs_to_its_end(client, job):
    view = client.job(job)
    assert (view.state, view.trials["completed"]) == ("completed", 4)
    assert [item.id for item in client.jobs().items] == [job]


def test_its_trials_curves_and_best_are_served(client, url, job):
    assert [trial.number for trial in client.all_trials(job)] == [0, 1, 2, 3]
    curves = client.curves(job, metrics=["eval/reward"])
    assert [curve.steps for curve in curves] == [list(range(7))] * 4
    best = client.best(job)
    assert best.trial.value == max(trial.value for trial in client.all_trials(job))
    assert httpx2.get(f"{url}/v1/jobs/{job}/best").json()["trial"]["number"] == best.trial.number


def test_the_dashboard_answers_on_the_same_port_and_is_read_only(url, job):
    studies = httpx2.get(f"{url}/api/studies", timeout=60).json()["study_summaries"]
    study = next(study for study in studies if study["study_name"] == job)
    detail = httpx2.get(f"{url}/api/studies/{study['study_id']}").json()
    assert [trial["state"] for trial in detail["trials"]] == ["Complete"] * 4
    assert httpx2.get(f"{url}/dashboard", follow_redirects=True, timeout=60).status_code == 200
    assert httpx2.delete(f"{url}/api/studies/{study['study_id']}").status_code == 403
    assert httpx2.get(f"{url}/api/studies", timeout=60).json()["study_summaries"]


def test_the_command_line_talks_to_the_service(home, url, job):
    answer = home.run("jobs", "--json", url=url)
    assert answer.returncode == 0, answer.stderr
    assert [item["id"] for item in json.loads(answer.stdout)["jobs"]] == [job]


def test_errors_arrive_as_the_same_classes(client, job):
    with pytest.raises(NotFoundError, match="there is no job 'nope'"):
        client.job("nope")
    with pytest.raises(InvalidSpaceError) as caught:
        client.submit("name: x\n", file="x.yaml")
    assert caught.value.problems
    with pytest.raises(ConflictError, match="nothing to cancel"):
        client.cancel(job)
