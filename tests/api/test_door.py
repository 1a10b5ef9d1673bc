"""The door over HTTP: without a token nothing that tells or changes anything is reached."""

import pytest
from starlette.testclient import TestClient

from autotune.access import Caller, Role
from autotune.api import create_app
from autotune.api.pace import Pace
from autotune.errors import TooManyRequestsError
from autotune.settings import Settings
from tests.fakes import SPACE, finished_job, finished_trials

VIEWER = Caller(name="vera", role=Role.VIEWER, token="1")
ADMIN = Caller(name="ada", role=Role.ADMIN, token="2")
BEARER = {"Authorization": "Bearer good"}


@pytest.fixture
def shut(service):
    service.add(finished_job(), finished_trials())
    service.access.holders = {"good": VIEWER, "better": ADMIN}
    return service


@pytest.fixture
def web(shut, tmp_path):
    return TestClient(create_app(shut, Settings(home=tmp_path)), base_url="http://tune.example", follow_redirects=False)


def addresses(app):
    for route in app.routes:
        for method in getattr(route, "methods", None) or ():
            yield (
                method,
                route.path.replace("{job_id}", "demo-1").replace("{number}", "0").replace("{name:path}", "x.js"),
            )


def test_no_route_but_the_open_ones_answers_without_a_token(web):
    opened = set()
    for method, path in addresses(web.app):
        answer = web.request(method, path)
        if "www-authenticate" not in answer.headers:
            opened.add(path)
            continue
        assert answer.status_code == 401
        assert method == "HEAD" or answer.json()["code"] == "unauthenticated"
    assert opened == {"/livez", "/login"}
    assert web.get("/dashboard").status_code == 401
    assert web.get("/api/studies").status_code == 401


def test_a_right_token_opens_and_a_wrong_one_does_not(web, shut):
    assert web.get("/v1/jobs", headers=BEARER).status_code == 200
    assert web.get("/v1/me", headers=BEARER).json() == {"name": "vera", "role": "viewer", "team": ""}
    assert web.get("/v1/jobs", headers={"Authorization": "Bearer bad"}).status_code == 401
    assert web.get("/v1/jobs", headers={"Authorization": "Basic Z29vZDo="}).status_code == 401
    assert shut.caller == VIEWER


@pytest.mark.parametrize("name", ["token", "access_token", "api_key", "TOKEN"])
def test_a_token_in_the_address_is_refused_even_when_it_is_right(web, name):
    answer = web.get(f"/v1/jobs?{name}=good", headers=BEARER)
    assert answer.status_code == 400
    assert "does not belong into an address" in answer.json()["detail"]
    assert "good" not in answer.text.replace(name, "")


def test_a_browser_is_led_to_the_form_and_back(web):
    page = web.get("/", headers={"Accept": "text/html"})
    assert (page.status_code, page.headers["location"]) == (303, "/login?next=/")
    assert "Your access token" in web.get("/login?next=/").text
    wrong = web.post("/login?next=/docs", data={"token": "bad"})
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers
    right = web.post("/login?next=/docs", data={"token": "good"})
    assert (right.status_code, right.headers["location"]) == (303, "/docs")
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert web.get("/v1/jobs").status_code == 200
    assert web.post("/logout").status_code == 303
    assert web.get("/v1/jobs").status_code == 401


@pytest.mark.parametrize(
    "wanted", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "/\r\nX: y"]
)
def test_the_form_leads_to_no_other_site(web, wanted):
    answer = web.post("/login", params={"next": wanted}, data={"token": "good"})
    assert answer.headers["location"] == "/"
    assert '"><script' not in web.get("/login", params={"next": '/"><script>'}).text


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}]
)
def test_a_cookie_does_not_let_a_foreign_page_change_anything(web, shut, headers):
    web.cookies.set("autotune_token", "better")
    before = dict(shut.store)
    answer = web.post("/v1/jobs", content=SPACE, headers={"Content-Type": "application/yaml", **headers})
    assert answer.status_code == 403
    assert shut.store == before
    assert web.post("/login", data={"token": "good"}, headers=headers).status_code == 403


def test_any_host_name_is_served_once_tokens_are_asked_for(web):
    assert web.get("/livez").status_code == 200
    assert web.get("/v1/jobs", headers=BEARER).status_code == 200


def test_the_dashboard_takes_changes_from_administrators_only(web):
    assert web.delete("/api/studies/1", headers=BEARER).status_code == 403
    answer = web.delete("/api/studies/1", headers={"Authorization": "Bearer better"})
    assert answer.json()["code"] == "not_found"  # no dashboard here: past the door and past the refusal


def test_a_header_is_never_split_by_what_a_caller_sends(web):
    answer = web.get("/v1/jobs", headers={**BEARER, "X-Request-ID": "a b"})
    assert answer.headers["x-request-id"] != "a b"


def test_the_embedded_service_asks_nobody(shut, tmp_path):
    http = TestClient(create_app(shut, Settings(home=tmp_path), embedded=True), base_url="http://localhost")
    assert http.get("/v1/jobs").status_code == 200


def test_who_asks_too_often_is_told_to_wait(shut, tmp_path):
    settings = Settings(home=tmp_path, requests_per_s=0.001, requests_at_once=3)
    http = TestClient(create_app(shut, settings), base_url="http://tune.example")
    codes = [http.get("/v1/jobs", headers=BEARER).status_code for _ in range(4)]
    assert codes == [200, 200, 200, 429]
    answer = http.get("/v1/jobs", headers=BEARER)
    assert answer.json()["code"] == "too_many_requests"
    assert int(answer.headers["retry-after"]) >= 1
    assert http.get("/v1/jobs", headers={"Authorization": "Bearer better"}).status_code == 200
    assert [http.get("/v1/jobs").status_code for _ in range(4)] == [401, 401, 401, 429]


def test_permissions_come_back_at_their_rate():
    now = [0.0]
    pace = Pace(2.0, 2, now=lambda: now[0])
    for _ in range(2):
        pace.take("a")
    with pytest.raises(TooManyRequestsError) as caught:
        pace.take("a")
    assert caught.value.wait_s == 1
    pace.take("b")
    now[0] += 0.5
    pace.take("a")
    with pytest.raises(TooManyRequestsError):
        pace.take("a")
    now[0] += 100.0
    pace.take("a")
    pace.take("a")
    with pytest.raises(TooManyRequestsError):
        pace.take("a")
