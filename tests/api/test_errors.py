import logging

import pytest

from autotune.errors import AutotuneError, Problem

KEYS = {"type", "title", "status", "detail", "instance", "code", "hint", "problems", "request_id"}


def subclasses(kind):
    return [kind] + [each for child in kind.__subclasses__() for each in subclasses(child)]


def assert_is_problem(answer, status, code):
    body = answer.json()
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(body) == KEYS
    assert (body["status"], body["code"]) == (status, code)
    assert body["type"] == f"urn:autotune:error:{code}"
    assert body["detail"]
    assert body["request_id"] == answer.headers["x-request-id"]
    return body


@pytest.mark.parametrize("kind", subclasses(AutotuneError))
def test_every_error_of_ours_is_answered_with_its_status_code_hint_and_problems(http, service, kind):
    problem = Problem(message="bad", hint="good", path="a.b", file="f.yaml", line=3, column=4)

    def broken(job_id):
        raise kind("what happened", hint="the fix", problems=[problem])

    service.job = broken
    body = assert_is_problem(http.get("/v1/jobs/x"), kind.status, kind.code)
    assert (body["detail"], body["hint"], body["instance"]) == ("what happened", "the fix", "/v1/jobs/x")
    assert body["problems"] == [
        {"message": "bad", "hint": "good", "path": "a.b", "file": "f.yaml", "line": 3, "column": 4}
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/jobs/none",
        "/v1/jobs/none/trials",
        "/v1/jobs/none/trials/0",
        "/v1/jobs/none/curves",
        "/v1/jobs/none/best",
        "/v1/jobs/none/events",
        "/v1/jobs/none/logs",
        "/v1/jobs/none/report",
        "/nowhere",
        "/v1",
        "/v1/job",
    ],
)
def test_what_is_not_there_is_a_404_problem(http, path):
    body = assert_is_problem(http.get(path), 404, "not_found")
    assert body["instance"] == path


@pytest.mark.parametrize("verb", ["cancel", "resume"])
def test_a_verb_on_an_unknown_job_is_a_404_problem(http, verb):
    assert_is_problem(http.post(f"/v1/jobs/none/{verb}"), 404, "not_found")


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        ("/v1/jobs?limit=0", "query.limit"),
        ("/v1/jobs?limit=501", "query.limit"),
        ("/v1/jobs?limit=many", "query.limit"),
        ("/v1/jobs?state=happy", "query.state"),
        ("/v1/jobs/x/trials/first", "path.number"),
        ("/v1/jobs/x/trials/-1", "path.number"),
        ("/v1/jobs/x/curves?trial=a", "query.trial.0"),
        ("/v1/jobs/x/curves?max_points=1", "query.max_points"),
        ("/v1/jobs/x/events?after=-1", "query.after"),
        ("/v1/jobs/x/logs?tail=0", "query.tail"),
    ],
)
def test_a_parameter_outside_its_range_is_named_with_the_value_got(http, path, parameter):
    body = assert_is_problem(http.get(path), 400, "usage")
    assert [problem["path"] for problem in body["problems"]] == [parameter]
    assert "got" in body["problems"][0]["message"]


def test_a_wrong_method_names_all_that_are_allowed(http):
    answer = http.request("DELETE", "/v1/jobs")
    body = assert_is_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, POST"
    assert "GET, POST" in body["detail"]


def test_an_unexpected_exception_tells_nothing_outside_and_everything_in_the_log(http, service, caplog):
    def broken(job_id):
        raise RuntimeError("secret inside")

    service.job = broken
    with caplog.at_level(logging.ERROR, logger="autotune.api"):
        answer = http.get("/v1/jobs/x", headers={"X-Request-ID": "abc-1"})
    assert_is_problem(answer, 500, "internal")
    assert "secret" not in answer.text
    assert "RuntimeError" not in answer.text
    record = caplog.records[-1]
    assert "abc-1" in record.getMessage()
    assert record.exc_info is not None


def test_a_readable_request_id_is_kept_and_a_hostile_one_replaced(http):
    assert http.get("/livez", headers={"X-Request-ID": "run-7"}).headers["x-request-id"] == "run-7"
    replaced = http.get("/livez", headers={"X-Request-ID": "a b\tc"}).headers["x-request-id"]
    assert len(replaced) == 32


def test_a_body_that_does_not_announce_its_size_is_cut_off_at_the_limit(http, service):
    def chunks():
        for _ in range(1100):
            yield b"#" * 1024

    answer = http.post("/v1/jobs", content=chunks(), headers={"Content-Type": "application/yaml"})
    assert_is_problem(answer, 413, "too_large")
    assert service.store == {}


def test_not_ready_is_a_503_problem_that_names_the_component(http, service):
    assert http.get("/readyz").json() == {"status": "ok", "components": {"database": "ok", "mlflow": "ok"}}
    service.components = {"database": "does not answer", "mlflow": "ok"}
    body = assert_is_problem(http.get("/readyz"), 503, "unreachable")
    assert [(problem["path"], problem["message"]) for problem in body["problems"]] == [("database", "does not answer")]


@pytest.mark.parametrize("component", ["ray", "mlflow", "disk"])
def test_what_only_jobs_wait_for_leaves_the_service_ready_and_is_told(http, service, component):
    service.components = {"database": "ok", component: "does not answer"}
    answer = http.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert answer.json()["components"][component] == "does not answer"


def test_a_sick_database_does_not_make_the_process_look_dead(http, service):
    service.components = {"database": "gone"}
    assert http.get("/livez").status_code == 200
