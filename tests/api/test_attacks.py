"""What a hostile token holder sends over HTTP: bombs, paths, code, headers. Nothing breaks, leaks or is stored."""

import json
import resource
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from starlette.testclient import TestClient

from autotune.access import LOCAL, Role
from autotune.api import create_app
from autotune.service import open_service
from autotune.settings import Settings
from tests.serving import served

SECRET = "hunter2-is-a-secret"
SPACE = """
name: NAME
trainer: {config: CONFIG, overrides: {OVERRIDES}}
search: {lr: {float: [1e-5, 1e-3], log: true}}
objective: {metric: eval/reward}
budget: {trials: 4, steps: 4}
"""


def space(name="demo", config="config", overrides="data: digits, model: tiny"):
    return SPACE.replace("NAME", name).replace("CONFIG", config).replace("OVERRIDES", overrides)


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    settings = Settings(home=home, requests_per_s=1e9, requests_at_once=10**9)
    service = open_service(settings)
    service.access.issue(LOCAL, "ada", Role.ADMIN)
    app = create_app(service, settings)
    app.state.token = service.access.issue(LOCAL, "mallory", Role.OPERATOR, "rl").token
    (home / "secret.yaml").write_text(f"name: {SECRET}\n")
    yield app
    service.store.close()


@pytest.fixture
def http(app):
    headers = {"Authorization": f"Bearer {app.state.token}", "Content-Type": "application/yaml"}
    return TestClient(app, base_url="http://tune.example", headers=headers)


@pytest.fixture
def nothing_stored(http):
    before = http.get("/v1/jobs").json()
    yield
    assert http.get("/v1/jobs").json() == before


@pytest.fixture(scope="module")
def job(app):
    headers = {"Authorization": f"Bearer {app.state.token}", "Content-Type": "application/yaml"}
    return TestClient(app, headers=headers).post("/v1/jobs", content=space("target")).json()["id"]


def refused(answer, *statuses):
    assert answer.status_code in statuses, f"{answer.status_code} {answer.text[:500]}"
    assert answer.headers["content-type"] == "application/problem+json"
    assert SECRET not in answer.text
    return answer.json()


LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
BOMBS = {
    "aliases": LAUGHS + space(),
    "aliases as merges": "b: &b {k: v}\n" + "".join(f"m{n}: {{<<: *b, k{n}: *b}}\n" for n in range(5000)) + space(),
    "an anchor in itself": "search: &s {lr: *s}\n",
    "deep flow": "name: " + "[" * 50_000,
    "deep mapping": "name: " + "{a: " * 20_000,
    "deep blocks": "".join(" " * depth + "a:\n" for depth in range(400)),
    "a long number": "budget: {trials: " + "9" * 50_000 + "}",
    "many documents": "---\n" * 50_000,
    "many keys": "search:\n" + "".join(f"  k{n}: 1\n" for n in range(11_000)),
    "a tag": "name: !!python/object/apply:os.system ['true']\n",
    "another tag": "name: !!python/name:os.system\n",
    "control characters": "name: 'a\x00b'\n",
    "a long expression": "require: ['" + "(" * 5000 + "1" + ")" * 5000 + " > 0']\n" + space(),
    "a deep expression": "require: ['" + "not " * 5000 + "true']\n" + space(),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/plan"])
def test_a_bomb_in_yaml_is_a_422_at_once(http, nothing_stored, path, bomb):
    began = time.process_time()
    refused(http.post(path, content=BOMBS[bomb]), 400, 422)
    assert time.process_time() - began < 10


DEEP = {
    "lists": "[" * 100_000 + "]" * 100_000,
    "objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "within a value": '{"search": {"lr": ' + "[" * 100_000 + "]" * 100_000 + "}}",
    "within params": '{"params": {"lr": ' + '{"a":' * 60_000 + "1" + "}" * 60_000 + "}}",
    "a long number": '{"params": {"lr": ' + "9" * 100_000 + "}}",
    "many keys": json.dumps({"params": {f"k{n}": 1 for n in range(50_000)}}),
}


@pytest.mark.parametrize("bomb", DEEP)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/jobs"),
        ("POST", "/v1/plan"),
        ("PATCH", "/v1/jobs/{}"),
        ("POST", "/v1/jobs/{}/trials"),
        ("POST", "/v1/jobs/{}/model"),
        ("POST", "/v1/tokens"),
    ],
)
def test_deep_json_is_refused_and_never_an_error_of_ours(http, job, method, path, bomb):
    answer = http.request(method, path.format(job), content=DEEP[bomb], headers={"Content-Type": "application/json"})
    refused(answer, 400, 403, 422)


@pytest.mark.parametrize("announced", [True, False])
def test_a_hundred_megabytes_are_refused_and_not_kept(app, nothing_stored, announced):
    chunk = b"#" * (1 << 20)
    headers = {"Authorization": f"Bearer {app.state.token}", "Content-Type": "application/yaml"}
    headers |= {"Content-Length": str(100 << 20)} if announced else {}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with served(app) as url:
        answer = httpx2.post(f"{url}/v1/jobs", content=(chunk for _ in range(100)), headers=headers, timeout=120)
        refused(answer, 413)
        assert httpx2.get(f"{url}/livez").status_code == 200
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 << 10  # KiB


NAMES = ["../../x", "..", ".", "a/b", "/etc/passwd", "a\\b", "%2e%2e%2f", "~root", "x" * 300, "a b", "-rf", "con\x7f"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_no_path(http, nothing_stored, name):
    body = refused(http.post("/v1/jobs", content=space(json.dumps(name))), 422)
    assert any(problem["path"] == "name" for problem in body["problems"])


@pytest.mark.parametrize("file", ["../../../../secret.yaml", "/etc/passwd", "..\\x", "x\r\nSet-Cookie: a=b"])
def test_the_files_name_is_used_in_messages_only(http, app, file):
    job = http.post("/v1/jobs", params={"file": file}, content=space(f"file-{abs(hash(file)) % 10**8}"))
    assert job.status_code == 201
    home = app.state.settings.root
    assert Path(job.json()["directory"]).resolve().is_relative_to(home / "jobs")
    assert "set-cookie" not in job.headers
    inside = {str(path.relative_to(home)) for path in Path(job.json()["directory"]).rglob("*")}
    assert inside == {f"jobs/{job.json()['id']}/space.yaml"}


@pytest.mark.parametrize(
    "target", ["../../secret.yaml", "/etc/passwd", "secret.yaml", "./secret.yaml", "~/secret.yaml"]
)
def test_extends_and_config_reach_no_file(http, app, nothing_stored, target):
    here = str(app.state.settings.root / "secret.yaml")
    for path in (target, here):
        refused(http.post("/v1/jobs", content=f"extends: {json.dumps(path)}\n" + space()), 422)
        refused(http.post("/v1/jobs", content=space(config=json.dumps(path))), 422)
        refused(http.post("/v1/plan", content=space(config=json.dumps(path))), 422)


@pytest.mark.parametrize("group", ["data: ../../../etc/passwd", "model: /etc/passwd", "reward: ../secret"])
def test_a_group_of_the_configuration_is_no_path(http, nothing_stored, group):
    refused(http.post("/v1/jobs", content=space(overrides=group)), 422)


def test_a_file_of_the_machine_is_not_read(http, nothing_stored, app):
    secret = app.state.settings.root / "secret.yaml"
    overrides = f"data: jsonl, data.train_file: {secret}, model: smollm2, reward: exact_match"
    for path in ("/v1/jobs", "/v1/plan"):
        body = refused(http.post(path, content=space(overrides=overrides)), 403)
        assert body["problems"][0]["path"] == "data.train_file"


@pytest.mark.parametrize("place", ["..", "../..", "%2e%2e", "..%2f..%2fsecret.yaml", "....//secret.yaml", "%00"])
@pytest.mark.parametrize(
    "path", ["/v1/jobs/{}", "/v1/jobs/{}/logs", "/v1/jobs/{}/report", "/v1/jobs/{}/space", "/web/{}", "/static/{}"]
)
def test_no_path_leads_out(http, path, place):
    answer = http.get(path.format(place), follow_redirects=False)
    assert answer.status_code < 500
    assert SECRET not in answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize(
    "query", ["trial=../0", "stage=../../x", "stage=%00", "tail=1e9", "trial=-1", "trial=999999999999"]
)
def test_logs_are_found_by_number_and_name_alone(http, job, query):
    refused(http.get(f"/v1/jobs/{job}/logs?{query}"), 400, 404)


CODE = [
    "model.path: {_target_: os.system, command: ls}",
    "data: {_target_: os.system}",
    "reward.function: {_target_: builtins.eval}",
    "_target_: os.system",
    "hydra.run.dir: /tmp/x",
    "hydra.job.chdir: true",
    "+new.key: 1",
    "~data: null",
    "model.path: '${oc.env:HOME}'",
    "model.path: '${oc.env:AUTOTUNE_TEST_SECRET}'",
    "model.path: '${oc.decode:${oc.env:AUTOTUNE_TEST_SECRET}}'",
    "data.train_file: '${oc.env:AUTOTUNE_TEST_SECRET}'",
    "model.path: '${hydra:runtime.cwd}'",
    "model.path: '${oc.create:{_target_: os.system}}'",
]


@pytest.mark.parametrize("override", CODE)
def test_an_override_is_a_value_and_nothing_more(http, nothing_stored, monkeypatch, override):
    monkeypatch.setenv("AUTOTUNE_TEST_SECRET", SECRET)
    refused(http.post("/v1/jobs", content=space(overrides=override)), 403, 422)
    refused(http.post("/v1/plan", content=space(overrides=override)), 403, 422)


def raw(url, *lines):
    """Sends bytes as they are; the head of the answer."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1"))
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer.partition(b"\r\n\r\n")[0].decode("latin-1").lower()


def test_no_header_of_an_answer_is_made_by_a_caller(app):
    with served(app) as url:
        host = f"Host: {urlsplit(url).netloc}"
        token = f"Authorization: Bearer {app.state.token}"
        heads = [
            raw(url, "GET /v1/jobs HTTP/1.1", host, token, "X-Request-ID: a\tb; Set-Cookie: evil=1"),
            raw(url, "GET /v1/jobs HTTP/1.1", host, token, "X-Request-ID: a\n Set-Cookie: evil=1"),
            raw(url, "GET /login?next=%0d%0aSet-Cookie:%20evil=1 HTTP/1.1", host),
            raw(url, "GET /%0d%0aSet-Cookie:%20evil=1 HTTP/1.1", host, "Accept: text/html"),
            raw(url, "GET /v1/jobs/%0d%0aSet-Cookie:%20evil=1 HTTP/1.1", host, token),
            raw(url, "GET /v1/jobs HTTP/1.1", host, token, "Origin: http://evil.example\r\nX: y"),
        ]
    for head in heads:
        assert "\r\nset-cookie: evil" not in head
        assert "access-control-allow-origin" not in head


def test_a_token_is_in_no_answer_log_or_row_but_where_it_was_made(app, http, caplog):
    with caplog.at_level("DEBUG"):
        http.get("/v1/jobs", params={"token": app.state.token})
        http.get("/v1/jobs/none", headers={"X-Request-ID": app.state.token})
        http.post("/v1/jobs", content=app.state.token)
        for path in ("/v1/me", "/v1/jobs", "/metrics", "/readyz"):
            assert app.state.token not in http.get(path).text
    secret = app.state.token.rpartition("_")[2]
    from autotune.logs import redacted

    assert secret not in redacted(caplog.text)
    files = [path for path in app.state.settings.root.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if secret.encode() in path.read_bytes()]
