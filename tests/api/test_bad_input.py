"""What is wrong with a request is said in 4xx with the fix, on both databases; nothing is stored and nothing breaks."""

import base64
import contextlib

import pytest
from starlette.testclient import TestClient

from autotune.api import create_app
from autotune.service import open_service
from autotune.settings import Settings
from tests.postgres import postgres_server

SPACE = """
name: demo
trainer: {overrides: {data: digits, model: tiny}}
search: {lr: {float: [1e-5, 1e-3], log: true}}
objective: {metric: eval/reward}
budget: {trials: 4, steps: 4}
"""
HUGE = 10**30


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def http(request, tmp_path_factory):
    """A client with a job `demo-1` that waits and a job `over-1` that has ended."""
    with contextlib.ExitStack() as kept:
        url = kept.enter_context(postgres_server()).fresh() if request.param == "postgresql" else None
        settings = Settings(home=tmp_path_factory.mktemp("home"), database_url=url)
        service = open_service(settings)
        kept.callback(service.store.close)
        client = TestClient(create_app(service, settings), base_url="http://127.0.0.1", raise_server_exceptions=False)
        assert client.post("/v1/jobs", content=SPACE, headers={"Idempotency-Key": "k"}).status_code == 201
        assert client.post("/v1/jobs", content=SPACE.replace("demo", "over")).status_code == 201
        assert client.post("/v1/jobs/over-1/cancel").status_code == 200
        yield client


def cursor(text):
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def state(http):
    jobs = http.get("/v1/jobs").json()["items"]
    return jobs, [http.get(f"/v1/jobs/{job['id']}/events").json() for job in jobs]


BUDGET = {"budget": {"trials": 1}}
CASES = [
    # method, path, what is sent, statuses, what the answer names
    ("POST", "/v1/jobs", {"content": SPACE + "x: 1\n", "headers": {"Idempotency-Key": "k"}}, {409, 422}, "x"),
    ("POST", "/v1/jobs", {"content": SPACE.replace("4", "5"), "headers": {"Idempotency-Key": "k"}}, {409}, "'k'"),
    ("GET", "/v1/jobs?cursor=nothing", {}, {422}, "`next`"),
    ("GET", f"/v1/jobs?cursor={cursor('no number')}", {}, {422}, "`next`"),
    ("GET", "/v1/jobs/demo-1/trials?cursor=x", {}, {422}, "`next`"),
    ("GET", "/v1/jobs/demo-1/trials?cursor=-1", {}, {422}, "`next`"),
    ("GET", f"/v1/jobs/demo-1/trials?cursor={HUGE}", {}, {422}, "`next`"),
    ("GET", "/v1/jobs/demo-1/trials?cursor=%C2%B2", {}, {422}, "`next`"),
    ("POST", "/v1/jobs/over-1/cancel", {}, {409}, "cancelled"),
    ("POST", "/v1/jobs/over-1/pause", {}, {409}, "cancelled"),
    ("POST", "/v1/jobs/over-1/stop", {}, {409}, "cancelled"),
    ("POST", "/v1/jobs/demo-1/trials", {"json": {"params": {"lr": 1.0}}}, {422}, "trainer.optim.lr"),
    ("POST", "/v1/jobs/demo-1/trials", {"json": {"params": {"lr": "a"}}}, {422}, "trainer.optim.lr"),
    ("POST", "/v1/jobs/demo-1/trials", {"json": {"params": {"lrr": 1e-4}}}, {422}, "lr"),
    ("POST", "/v1/jobs/demo-1/trials", {"json": {"params": {"lr": "\x00"}}}, {422}, "lr"),
    ("POST", "/v1/jobs/demo-1/trials", {"json": {"params": {"\x00": 1}}}, {422}, "trainer.optim.lr"),
    ("POST", "/v1/jobs/demo-1/trials", {"json": {"parms": {}}}, {400, 422}, "parms"),
    ("POST", "/v1/jobs/over-1/trials", {"json": {"params": {"lr": 1e-4}}}, {409}, "cancelled"),
    ("PATCH", "/v1/jobs/demo-1", {"json": {"budget": {"trials": 0}}}, {409, 422}, "trials"),
    ("PATCH", "/v1/jobs/demo-1", {"json": {"budget": {"trials": HUGE}}}, {400, 409, 422}, "trials"),
    ("PATCH", "/v1/jobs/demo-1", {"json": {"budget": {"parallel": 0}}}, {409, 422}, "parallel"),
    ("PATCH", "/v1/jobs/demo-1", {"json": {"budget": {"wall_clock": "soon"}}}, {409, 422}, "wall_clock"),
    ("PATCH", "/v1/jobs/demo-1", {"json": {"budget": {"steps": 9}}}, {400, 422}, "steps"),
    ("PATCH", "/v1/jobs/demo-1", {"json": {"priority": 10**12}}, {400, 422}, "priority"),
    ("PATCH", "/v1/jobs/demo-1", {"json": {"priority": "high"}}, {400, 422}, "priority"),
    ("PATCH", "/v1/jobs/demo-1", {"json": {}}, {400, 409, 422}, ""),
    ("PATCH", "/v1/jobs/over-1", {"json": BUDGET}, {409}, "over-1"),
    ("PATCH", "/v1/jobs/none", {"json": BUDGET}, {404}, "none"),
    ("GET", "/v1/jobs/%00", {}, {400}, "NUL"),
    ("POST", "/v1/jobs/%00/cancel", {}, {400}, "NUL"),
    ("DELETE", "/v1/tokens/%00", {}, {400}, "NUL"),
    ("GET", "/v1/jobs/demo-1/trials?stage=%00", {}, {400}, "NUL"),
    ("POST", "/v1/jobs", {"content": SPACE, "headers": {"Idempotency-Key": "a\x00b"}}, {400}, "idempotency"),
    ("GET", "/v1/jobs/demo-1/trials/99999999999", {}, {400}, "number"),
    ("GET", "/v1/jobs/demo-1/curves?trial=99999999999", {}, {400}, "trial"),
    ("GET", "/v1/jobs/demo-1/logs?trial=99999999999", {}, {400}, "trial"),
    ("GET", "/v1/jobs/demo-1/advice?trial=99999999999", {}, {400}, "trial"),
    ("GET", "/v1/jobs/demo-1/export?to=native&trial=99999999999", {}, {400}, "trial"),
    ("GET", f"/v1/jobs/demo-1/events?after={2**63}", {}, {400}, "after"),
    ("GET", "/v1/jobs/demo-1/trials/7", {}, {404}, "no trials yet"),
    ("PUT", "/v1/teams/a b", {"json": {"share": 1}}, {400, 422}, "1 to 63 letters"),
    ("PUT", "/v1/teams/rl", {"json": {"share": 0}}, {400, 422}, "share"),
    ("POST", "/v1/tokens", {"json": {"name": "a\x00", "role": "admin"}}, {400, 422}, "1 to 63 letters"),
    ("POST", "/v1/jobs", {"content": b"\xff\xfe"}, {400}, "UTF-8"),
    ("POST", "/v1/jobs", {"content": b""}, {400}, "empty"),
    ("POST", "/v1/jobs", {"content": SPACE, "headers": {"Content-Type": "image/png"}}, {415}, "image/png"),
    ("POST", "/v1/jobs", {"content": "just text"}, {422}, "mapping"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]} {str(case[2])[-40:]}")
def test_a_bad_request_is_refused_with_the_fix(http, case):
    method, path, sent, statuses, names = case
    before = state(http)
    answer = http.request(method, path, **sent)
    assert answer.status_code in statuses, f"{answer.status_code} {answer.text}"
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert names.lower() in answer.text.lower()
    fixes = [body["hint"], *(problem["hint"] for problem in body["problems"])]
    assert any(fixes) or "allowed" in answer.text or body["problems"], "it says what to do"
    assert state(http) == before, "nothing was stored"


@pytest.mark.parametrize("place", ["1.0 \x00", "nan x", "1e400 x", "-1 x"])
def test_a_cursor_that_points_nowhere_is_an_empty_page_or_refused(http, place):
    assert http.get(f"/v1/jobs?cursor={cursor(place)}").status_code in (200, 422)
