"""The API over the real service and its database: what the fake cannot vouch for."""

import httpx2
import pytest
from starlette.testclient import TestClient

from autotune.api import create_app
from autotune.service import open_service
from autotune.settings import Settings

SPACE = "name: real\nextends: quickstart\nbudget: {trials: 3, steps: 20}\n"


@pytest.fixture
def http(tmp_path):
    settings = Settings(home=tmp_path)
    service = open_service(settings)
    yield TestClient(create_app(service, settings), base_url="http://127.0.0.1:8765")
    service.store.close()


def submit(http):
    return http.post("/v1/jobs", content=SPACE, headers={"Content-Type": "application/yaml"}).json()["id"]


def test_the_record_that_the_store_writes_ends_the_stream(http):
    job = submit(http)
    assert http.post(f"/v1/jobs/{job}/cancel").json()["state"] == "cancelled"
    answer = http.get(f"/v1/jobs/{job}/events", headers={"Accept": "text/event-stream"})
    request = httpx2.Request("GET", "http://x")
    messages = list(httpx2.EventSource(httpx2.Response(200, headers=answer.headers, text=answer.text, request=request)))
    events = [message.json() for message in messages if message.id and message.event == "message"]
    assert events == http.get(f"/v1/jobs/{job}/events").json()
    assert events[-1]["kind"] == "job.state"
    assert events[-1]["data"]["to"] == "cancelled", "what the stream takes the end from"
    assert (messages[-1].event, messages[-1].json()) == ("end", {"state": "cancelled"})


def test_a_space_is_shown_with_everything_that_it_extends(http):
    space = http.get(f"/v1/jobs/{submit(http)}/space").json()
    assert space["budget"]["trials"] == 3
    assert "trainer.optim.lr" in space["search"]
    assert any("kl_ceiling" in pruner for pruner in space["prune"] if isinstance(pruner, dict))


def test_jobs_are_counted_over_the_pages_of_the_store(http):
    for number in range(12):
        space = SPACE.replace("real", f"job{number}")
        job = http.post("/v1/jobs", content=space, headers={"Content-Type": "application/yaml"}).json()["id"]
        if number:
            http.post(f"/v1/jobs/{job}/cancel")
    text = http.get("/metrics").text
    assert 'autotune_jobs{state="queued"} 1.0' in text
    assert 'autotune_jobs{state="cancelled"} 11.0' in text
