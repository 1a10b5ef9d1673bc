import pytest

from tests.fakes import finished_job, make_job


@pytest.mark.parametrize(("verb", "state"), [("pause", "paused"), ("stop", "stopping"), ("cancel", "cancelled")])
def test_a_verb_answers_with_the_job_as_it_is_then(http, service, verb, state):
    service.add(make_job(state="running"))
    answer = http.post(f"/v1/jobs/demo-1/{verb}")
    assert (answer.status_code, answer.json()["state"]) == (200, state)


@pytest.mark.parametrize("verb", ["pause", "stop", "cancel"])
def test_a_verb_on_a_job_that_has_ended_is_a_conflict(http, service, verb):
    service.add(finished_job())
    answer = http.post(f"/v1/jobs/demo-1/{verb}")
    assert (answer.status_code, answer.headers["content-type"]) == (409, "application/problem+json")
    assert http.post(f"/v1/jobs/nothing-1/{verb}").status_code == 404


def test_only_what_was_sent_is_changed(http, service):
    service.add(make_job(state="running"))
    answer = http.patch("/v1/jobs/demo-1", json={"budget": {"trials": 9, "gpu_hours": None}})
    assert (answer.status_code, answer.json()["budget_trials"]) == (200, 9)
    assert service.calls[-1] == ("edit", "demo-1", {"trials": 9, "gpu_hours": None}, None)
    http.patch("/v1/jobs/demo-1", json={"priority": 3})
    assert service.calls[-1] == ("edit", "demo-1", None, 3)


def test_the_search_of_a_job_at_rest_is_changed_with_its_budget(http, service):
    service.add(make_job(state="paused"))
    search = {"lr": {"float": [1e-7, 1e-5], "log": True}, "ppo_epochs": None}
    assert http.patch("/v1/jobs/demo-1", json={"search": search, "stage": "effect"}).status_code == 200
    assert service.calls == [("edit_space", "demo-1", search, "effect")]
    assert http.patch("/v1/jobs/demo-1", json={"search": search, "budget": {"trials": 9}}).json()["budget_trials"] == 9
    assert service.calls[1:] == [("edit_space", "demo-1", search, None), ("edit", "demo-1", {"trials": 9}, None)]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"budget": {"trails": 9}}, "body.budget.trails"),
        ({"budget": {"trials": "many"}}, "body.budget.trials"),
        ({"priority": 1.5}, "body.priority"),
        ({"name": "other"}, "body.name"),
        ([], "body"),
    ],
)
def test_a_change_that_is_none_names_its_field(http, service, body, field):
    service.add(make_job(state="running"))
    answer = http.patch("/v1/jobs/demo-1", json=body)
    assert answer.status_code == 400
    assert field in [problem["path"] for problem in answer.json()["problems"]]
    assert service.calls == []


def test_an_enqueued_configuration_is_answered_with_its_event(http, service):
    service.add(make_job(state="running"))
    answer = http.post("/v1/jobs/demo-1/trials", json={"params": {"lr": 1e-4}})
    assert (answer.status_code, answer.json()["kind"]) == (201, "job.enqueue")
    assert answer.json()["data"] == {"params": {"lr": 1e-4}}


@pytest.mark.parametrize("content", [b"{", b"", b"[" * 100_000, b'{"params": 3}', b'{"params": {}, "x": 1}'])
def test_a_body_that_is_no_configuration_is_refused(http, service, content):
    service.add(make_job(state="running"))
    answer = http.post("/v1/jobs/demo-1/trials", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["code"] == "usage" or answer.json()["code"].startswith("http_400")
    assert service.events_of["demo-1"] == []
