"""Each role against each route, over the real service: a route that has no row here fails."""

import re
from dataclasses import dataclass

import pytest
from starlette.testclient import TestClient

from autotune.access import LOCAL, Role
from autotune.api import create_app
from autotune.service import open_service
from autotune.settings import Settings

SPACE = """
name: {name}
trainer: {{overrides: {{data: digits, model: tiny}}}}
search: {{lr: {{float: [1e-5, 1e-3], log: true}}}}
objective: {{metric: eval/reward}}
budget: {{trials: 4, steps: 4}}
"""
WHO = ("stranger", "viewer", "other", "mate", "owner", "admin")
"""Without a token; a viewer; operators of another team and of the owner's; who submitted the job; an administrator."""
EVERYBODY, HOLDERS, OPERATORS, TEAM, ADMINS = WHO, WHO[1:], WHO[2:], WHO[3:], WHO[5:]


@dataclass(frozen=True)
class Row:
    """Who may, and what is sent."""

    may: tuple[str, ...]
    body: object = None
    text: str | None = None


NEW_TOKEN = {"name": "eve", "role": "viewer"}
ROWS = {
    "GET /openapi.json": Row(HOLDERS),
    "GET /docs": Row(HOLDERS),
    "GET /": Row(HOLDERS),
    "GET /web/plotly.min.js": Row(HOLDERS),
    "GET /web/{name:path}": Row(HOLDERS),
    "GET /livez": Row(EVERYBODY),
    "GET /readyz": Row(HOLDERS),
    "GET /metrics": Row(HOLDERS),
    "GET /login": Row(EVERYBODY),
    "POST /login": Row(EVERYBODY, text="token=no"),
    "POST /logout": Row(HOLDERS),
    "GET /v1/me": Row(HOLDERS),
    "GET /v1/jobs": Row(HOLDERS),
    "POST /v1/jobs": Row(OPERATORS, text=SPACE),
    "POST /v1/plan": Row(HOLDERS, text=SPACE),
    "GET /v1/spaces": Row(HOLDERS),
    "GET /v1/jobs/{job_id}": Row(HOLDERS),
    "PATCH /v1/jobs/{job_id}": Row(TEAM, body={"priority": 3}),
    "POST /v1/jobs/{job_id}/pause": Row(TEAM),
    "POST /v1/jobs/{job_id}/resume": Row(TEAM),
    "POST /v1/jobs/{job_id}/stop": Row(TEAM),
    "POST /v1/jobs/{job_id}/cancel": Row(TEAM),
    "POST /v1/jobs/{job_id}/trials": Row(TEAM, body={"params": {"lr": 1e-4}}),
    "POST /v1/jobs/{job_id}/model": Row(TEAM, body={"name": "m"}),
    "GET /v1/jobs/{job_id}/trials": Row(HOLDERS),
    "GET /v1/jobs/{job_id}/trials/{number}": Row(HOLDERS),
    "GET /v1/jobs/{job_id}/advice": Row(HOLDERS),
    "GET /v1/jobs/{job_id}/curves": Row(HOLDERS),
    "GET /v1/jobs/{job_id}/space": Row(HOLDERS),
    "GET /v1/jobs/{job_id}/best": Row(HOLDERS),
    "GET /v1/jobs/{job_id}/export": Row(HOLDERS),
    "GET /v1/jobs/{job_id}/events": Row(HOLDERS),
    "GET /v1/jobs/{job_id}/logs": Row(HOLDERS),
    "GET /v1/jobs/{job_id}/report": Row(HOLDERS),
    "GET /v1/tokens": Row(ADMINS),
    "POST /v1/tokens": Row(ADMINS, body=NEW_TOKEN),
    "DELETE /v1/tokens/{token_id}": Row(ADMINS),
    "GET /v1/teams": Row(ADMINS),
    "PUT /v1/teams/{team}": Row(ADMINS, body={"share": 2.0}),
    # Optuna Dashboard answers on what no route takes; these stand for it.
    "GET /dashboard": Row(HOLDERS),
    "GET /api/studies": Row(HOLDERS),
    "POST /api/studies": Row(ADMINS, body={}),
    "PUT /api/studies/1/note": Row(ADMINS, body={}),
    "DELETE /api/studies/1": Row(ADMINS),
    "DELETE /artifacts/1": Row(ADMINS),
}
REFUSED = (401, 403)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The application, its service, and the token of each role."""
    settings = Settings(home=tmp_path_factory.mktemp("home"), requests_per_s=1e9, requests_at_once=10**9)
    service = open_service(settings)
    tokens = {"admin": service.access.issue(LOCAL, "ada", Role.ADMIN).token}
    for name, role, team in (
        ("viewer", Role.VIEWER, "rl"),
        ("other", Role.OPERATOR, "vision"),
        ("mate", Role.OPERATOR, "rl"),
        ("owner", Role.OPERATOR, "rl"),
    ):
        tokens[name] = service.access.issue(LOCAL, name, role, team).token
    yield TestClient(create_app(service, settings), base_url="http://tune.example", follow_redirects=False), tokens
    service.store.close()


def routes(app):
    for route in app.routes:
        for method in sorted((getattr(route, "methods", None) or set()) - {"HEAD"}):
            yield f"{method} {route.path}"


def headers(tokens, who):
    return {} if who == "stranger" else {"Authorization": f"Bearer {tokens[who]}"}


def new_job(http, tokens, name):
    answer = http.post("/v1/jobs", content=SPACE.format(name=name), headers=headers(tokens, "owner"))
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def test_every_route_has_a_row(place):
    http, _ = place
    missing = set(routes(http.app)) - set(ROWS)
    assert not missing, f"say in ROWS who may ask for {sorted(missing)}"
    gone = {row for row in ROWS if not re.match(r"\w+ /(dashboard|api|artifacts)", row)} - set(routes(http.app))
    assert not gone


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("row", ROWS)
def test_who_may_gets_an_answer_and_who_may_not_is_refused(place, row, who):
    http, tokens = place
    method, _, template = row.partition(" ")
    slug = re.sub(r"\W+", "-", row.lower()).strip("-")
    path = template
    if "{job_id}" in path:
        path = path.replace("{job_id}", new_job(http, tokens, f"{slug}-{who}"[:60]))
    for name, value in (("{number}", "0"), ("{token_id}", "none"), ("{team}", "rl"), ("{name:path}", "app.js")):
        path = path.replace(name, value)
    sent = ROWS[row]
    content = {"json": sent.body} if sent.body is not None else {}
    if sent.text is not None:
        kind = "application/x-www-form-urlencoded" if "login" in path else "application/yaml"
        content = {"content": sent.text.format(name=f"new-{slug}-{who}"[:60])}
        content["headers"] = {"Content-Type": kind}
    asked = {**content.pop("headers", {}), **headers(tokens, who)}
    params = {"to": "native"} if path.endswith("/export") else {}
    before = http.get("/v1/jobs?limit=500", headers=headers(tokens, "admin")).text
    answer = http.request(method, path, headers=asked, params=params, **content)
    assert answer.status_code < 500, answer.text
    if row == "POST /login":
        assert answer.status_code == 401, "the word was no token"
        return
    allowed = who in sent.may
    assert (answer.status_code not in REFUSED) == allowed, f"{row} as {who}: {answer.status_code} {answer.text[:300]}"
    if not allowed:
        assert answer.status_code == (401 if who == "stranger" else 403)
        assert answer.json()["code"] == ("unauthenticated" if who == "stranger" else "not_allowed")
        after = http.get("/v1/jobs?limit=500", headers=headers(tokens, "admin")).text
        assert after == before, "a refusal changes nothing"
