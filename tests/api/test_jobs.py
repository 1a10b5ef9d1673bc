import json

import pytest
import yaml

from tests.fakes import SPACE, finished_job, make_job

YAML = {"Content-Type": "application/yaml"}


def test_a_submitted_space_becomes_a_job_with_its_address(http, service):
    answer = http.post("/v1/jobs", content=SPACE, headers=YAML)
    assert answer.status_code == 201
    assert answer.headers["location"] == "/v1/jobs/demo-1"
    assert answer.json()["id"] == "demo-1"
    assert http.get(answer.headers["location"]).json() == answer.json()


def test_json_is_taken_as_well_as_yaml_and_named_so(http, service):
    answer = http.post("/v1/jobs", json=yaml.safe_load(SPACE))
    assert answer.status_code == 201
    _, source, file, key = service.calls[-1]
    assert json.loads(source) == yaml.safe_load(SPACE)
    assert (file, key) == ("space.json", None)


def test_the_file_name_reaches_the_messages(http):
    answer = http.post("/v1/jobs?file=mine.yaml", content="name: x", headers=YAML)
    assert answer.status_code == 422
    assert [problem["file"] for problem in answer.json()["problems"]] == ["mine.yaml", "mine.yaml"]


def test_the_same_key_again_answers_with_the_first_job(http, service):
    headers = {**YAML, "Idempotency-Key": "k-1"}
    first = http.post("/v1/jobs", content=SPACE, headers=headers)
    again = http.post("/v1/jobs", content=SPACE, headers=headers)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert again.headers["location"] == first.headers["location"]
    assert len(service.store) == 1


def test_a_key_for_another_space_is_a_conflict(http, service):
    headers = {**YAML, "Idempotency-Key": "k-1"}
    http.post("/v1/jobs", content=SPACE, headers=headers)
    answer = http.post("/v1/jobs", content=SPACE + "\n# other\n", headers=headers)
    assert answer.status_code == 409
    assert answer.json()["code"] == "conflict"
    assert len(service.store) == 1


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"name: only", YAML, 422),
        (b"", YAML, 400),
        (b"  \n", YAML, 400),
        (b"name: \xff\xfe", YAML, 400),
        (SPACE.encode(), {"Content-Type": "multipart/form-data"}, 415),
        (SPACE.encode(), {**YAML, "Idempotency-Key": "k" * 201}, 400),
        (b"#" * (1024 * 1024 + 1), YAML, 413),
    ],
)
def test_a_bad_submission_stores_nothing(http, service, content, headers, status):
    answer = http.post("/v1/jobs", content=content, headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert service.store == {}


def test_jobs_are_paged_newest_first(http, service):
    for number in range(5):
        service.add(make_job(f"demo-{number}"))
    seen, cursor = [], None
    while True:
        page = http.get("/v1/jobs", params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        seen += [job["id"] for job in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == ["demo-4", "demo-3", "demo-2", "demo-1", "demo-0"]


def test_jobs_are_filtered_by_state(http, service):
    service.add(make_job("demo-1"))
    service.add(finished_job(job_id="demo-2"))
    assert [job["id"] for job in http.get("/v1/jobs?state=completed").json()["items"]] == ["demo-2"]


def test_cancel_and_resume_answer_with_the_job_as_it_is_now(http, service):
    service.add(make_job(state="running"))
    assert http.post("/v1/jobs/demo-1/cancel").json()["state"] == "cancelled"
    assert http.post("/v1/jobs/demo-1/resume").json()["state"] == "queued"


def test_cancelling_what_has_ended_is_a_conflict_of_its_own_kind(http, finished):
    answer = http.post("/v1/jobs/demo-1/cancel")
    assert answer.status_code == 409
    assert answer.json()["code"] == "illegal_transition"
    assert finished.store["demo-1"].state == "completed"


def test_a_plan_stores_nothing(http, service):
    answer = http.post("/v1/plan", content=SPACE, headers=YAML)
    assert answer.status_code == 200
    assert answer.json()["max_steps"] == 160
    assert service.store == {}


def test_spaces_are_listed(http):
    assert [space["name"] for space in http.get("/v1/spaces").json()] == ["quickstart"]
