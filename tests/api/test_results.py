from dataclasses import asdict, replace
from math import inf, nan

import pytest

from autotune.views import EventView
from tests.fakes import finished_job, make_pruned, make_trial


def test_trials_come_with_reason_and_error(http, finished):
    items = http.get("/v1/jobs/demo-1/trials").json()["items"]
    assert [trial["state"] for trial in items] == ["completed", "completed", "pruned", "infeasible"]
    assert items[2]["reason"]["pruner"] == "kl_ceiling"
    assert items[3]["error"]["kind"] == "out_of_memory"


def test_trials_are_filtered_and_paged(http, finished):
    page = http.get("/v1/jobs/demo-1/trials?state=completed&limit=1").json()
    assert [trial["number"] for trial in page["items"]] == [0]
    rest = http.get("/v1/jobs/demo-1/trials", params={"state": "completed", "limit": 1, "cursor": page["next"]}).json()
    assert [trial["number"] for trial in rest["items"]] == [1]
    assert rest["next"] is None


def test_one_trial_is_found_by_its_number(http, finished):
    assert http.get("/v1/jobs/demo-1/trials/2").json() == asdict(make_pruned(2))


def test_curves_can_be_narrowed_to_metrics_trials_and_points(http, finished):
    answer = http.get("/v1/jobs/demo-1/curves?metric=reward/mean&metric=kl/actor_ref&trial=1&trial=2&max_points=3")
    curves = answer.json()
    assert [curve["trial"] for curve in curves] == [1, 2]
    assert all(set(curve["metrics"]) == {"reward/mean", "kl/actor_ref"} for curve in curves)
    assert all(len(curve["steps"]) == 3 for curve in curves)


def test_values_that_are_not_finite_become_null(http, finished):
    odd = make_trial(0, value=nan, params={"a": inf}, violations={"kl": nan}, metrics={"reward/mean": -inf})
    finished.add(finished_job(best_value=nan), [odd])
    trial = http.get("/v1/jobs/demo-1/trials/0").json()
    assert trial["value"] is None
    assert trial["params"] == {"a": None}
    assert trial["violations"] == {"kl": None}
    assert http.get("/v1/jobs/demo-1").json()["best_value"] is None
    finished.curves_of["demo-1"] = [replace(finished.curves_of["demo-1"][0], metrics={"reward/mean": [nan, 1.0]})]
    assert http.get("/v1/jobs/demo-1/curves").json()[0]["metrics"] == {"reward/mean": [None, 1.0]}


def test_the_best_configuration_comes_with_its_evidence(http, finished):
    best = http.get("/v1/jobs/demo-1/best").json()
    assert best["trial"]["number"] == 1
    assert best["default"]["number"] == 0
    assert best["improvement"] > 0
    assert best["command"].startswith("python -m trainer")


def test_events_go_on_after_the_last_one_seen(http, finished):
    finished.events_of["demo-1"] = [
        EventView(id=number, at=1.0, kind="trial.state", text="x", trial=0, data={"to": "running"})
        for number in range(1, 6)
    ]
    events = http.get("/v1/jobs/demo-1/events?after=2&limit=2").json()
    assert [event["id"] for event in events] == [3, 4]


def test_logs_are_plain_text_from_the_end(http, finished):
    answer = http.get("/v1/jobs/demo-1/logs?tail=2")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text == "second\nthird\n"


def test_the_report_is_html_that_may_reach_for_nothing(http, finished):
    answer = http.get("/v1/jobs/demo-1/report")
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "<title>demo-1</title>" in answer.text


@pytest.mark.parametrize(
    ("form", "kind"),
    [("html", "text/html; charset=utf-8"), ("markdown", "text/markdown; charset=utf-8"), ("json", "application/json")],
)
def test_a_report_is_served_in_three_forms(http, finished, form, kind):
    answer = http.get("/v1/jobs/demo-1/report", params={"format": form})
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    assert http.get("/v1/jobs/demo-1/report?format=pdf").status_code == 400
