import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from autotune.api.census import KEEP_S, Census
from autotune.clock import ManualClock
from autotune.errors import UnreachableError
from autotune.views import AdvisedView, ErrorView, ReasonView
from tests.fakes import FakeService, finished_job, finished_trials, make_job, make_pruned, make_trial

ROOT = Path(__file__).resolve().parents[2] / "dashboards"
BOARDS = sorted((ROOT / "grafana" / "dashboards").glob("*.json"))
OURS = re.compile(r"\b(?:autotune|process|python)_[a-z_]+\b")


def scrape(http):
    answer = http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def names(http):
    return {key[0] for key in scrape(http)}


def test_gpu_slots_and_the_age_of_leases_are_shown(http, service):
    found = scrape(http)
    assert found["autotune_gpu_slots", ("state", "busy")] == 3
    assert found["autotune_gpu_slots", ("state", "idle")] == 5
    assert found[("autotune_lease_age_seconds",)] == 4
    service.held = replace(service.held, gpus=None)
    assert ("autotune_gpu_slots", ("state", "idle")) not in scrape(http), "nobody has seen the cluster yet"


class CountingService(FakeService):
    """Counts what is asked."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def jobs(self, state, limit, cursor):
        self.asked.append(("jobs", state))
        return super().jobs(state, limit, cursor)

    def trials(self, job_id, state, limit, cursor):
        self.asked.append(("trials", job_id))
        return super().trials(job_id, state, limit, cursor)


def test_jobs_trials_and_reasons_are_counted(http, service):
    service.add(finished_job(cost_s=100.0, cost_gpu_hours=2.0), finished_trials())
    service.add(make_job("b-2", state="running", trials={"pruned": 1}, cost_gpu_hours=0.5), [make_pruned(0, "asha")])
    found = scrape(http)
    assert found["autotune_jobs", ("state", "completed")] == 1
    assert found["autotune_jobs", ("state", "running")] == 1
    assert found["autotune_jobs", ("state", "failed")] == 0
    assert found["autotune_trials", ("state", "pruned")] == 2
    assert found["autotune_trials_stopped", ("pruner", "kl_ceiling")] == 1
    assert found["autotune_trials_stopped", ("pruner", "asha")] == 1
    assert found["autotune_trials_failed", ("kind", "out_of_memory")] == 1
    assert found[("autotune_gpu_hours",)] == 2.5
    assert found[("autotune_trial_seconds",)] == 100.0
    assert found["autotune_ready", ("component", "database")] == 1
    assert found["autotune_build_info", ("version", http.get("/livez").json()["version"])] == 1


def test_trials_from_advice_are_counted_by_what_came_of_them(http, service):
    one = AdvisedView(rule="kl_too_high", trials=[3, 5, 8, 9], better=2, open=1)
    odd = AdvisedView(rule="somebody's own", trials=[4], better=0, open=0)
    service.add(finished_job(advised=[one, odd]), finished_trials())
    found = scrape(http)
    counts = {
        outcome: found["autotune_trials_advised", ("outcome", outcome), ("rule", "kl_too_high")]
        for outcome in ("better", "not_better", "open")
    }
    assert counts == {"better": 2, "not_better": 1, "open": 1}
    assert found["autotune_trials_advised", ("outcome", "not_better"), ("rule", "other")] == 1


def test_labels_stay_few_whatever_names_come(http, service):
    odd = ReasonView(pruner="somebody's own\n{}", text="x", numbers={})
    error = ErrorView(kind="brand_new", message="x", hint="")
    service.add(finished_job(), [replace(make_pruned(0), reason=odd), make_trial(1, state="failed", error=error)])
    for number in range(50):
        http.get(f"/v1/jobs/job-{number}/trials/{number}")
        http.get(f"/nothing/{number}")
    http.request("BREW", "/v1/jobs")
    found = scrape(http)
    assert found["autotune_trials_stopped", ("pruner", "other")] == 1
    assert found["autotune_trials_failed", ("kind", "other")] == 1
    routes = {label[1] for key in found for label in key[1:] if label[0] == "route"}
    assert "/v1/jobs/{job_id}/trials/{number}" in routes
    assert "none" in routes
    assert len(routes) <= 5
    assert "other" in {label[1] for key in found for label in key[1:] if label[0] == "method"}


def test_requests_are_timed_by_route_method_and_status(http, finished):
    for _ in range(3):
        http.get("/v1/jobs/demo-1")
    http.get("/v1/jobs/demo-9")
    found = scrape(http)
    labels = (("method", "GET"), ("route", "/v1/jobs/{job_id}"))
    assert found["autotune_http_request_seconds_count", *labels, ("status", "200")] == 3
    assert found["autotune_http_request_seconds_count", *labels, ("status", "404")] == 1
    buckets = [value for key, value in found.items() if key[0].endswith("_bucket") and ("status", "404") in key]
    assert buckets == sorted(buckets)
    assert buckets[-1] == 1
    assert found["autotune_http_request_seconds_sum", *labels, ("status", "200")] > 0


def test_a_database_that_is_away_leaves_the_rest_of_the_metrics(http, service):
    def away(*_):
        raise UnreachableError("the database does not answer.")

    service.jobs = away
    service.components["database"] = "it does not answer."
    found = scrape(http)
    assert found["autotune_ready", ("component", "database")] == 0
    assert "autotune_jobs" not in {key[0] for key in found}


def census_of(service):
    time = [0.0]
    clock = ManualClock(1_700_000_000.0)

    def later(seconds=KEEP_S):
        time[0] += seconds
        clock.advance(seconds)

    return Census(service, clock, now=lambda: time[0]), later


def test_what_has_ended_is_read_once():
    service = CountingService()
    for number in range(30):
        service.add(replace(finished_job(), id=f"old-{number}"), finished_trials())
    census, later = census_of(service)
    assert census.count().jobs["completed"] == 30
    assert service.asked.count(("trials", "old-0")) == 1
    service.asked.clear()
    later()
    assert census.count().jobs["completed"] == 30
    assert [asked for asked in service.asked if asked[0] == "trials"] == []
    assert len(service.asked) <= 7, "one look for each state"


def test_many_scrapes_cost_one_look():
    service = CountingService()
    service.add(make_job(state="running", trials={"completed": 1}), [make_trial(0)])
    census, later = census_of(service)
    census.count()
    service.asked.clear()
    for _ in range(20):
        later(KEEP_S / 40)
        census.count()
    assert service.asked == []
    later()
    census.count()
    assert ("trials", "demo-1") in service.asked


def test_a_job_that_ends_or_is_resumed_is_counted_once():
    service = CountingService()
    for number in range(8):
        service.add(replace(finished_job(), id=f"newer-{number}"), [])
    service.store = {"demo-1": make_job(state="running"), **service.store}
    service.trials_of["demo-1"] = []
    census, later = census_of(service)
    assert census.count().jobs == {"running": 1, "completed": 8}
    service.change("demo-1", state="failed", ended_at=5.0)
    later()
    assert census.count().jobs == {"failed": 1, "completed": 8}
    service.change("demo-1", state="queued", ended_at=None, started_at=1.0)
    later()
    sums = census.count()
    assert sums.jobs == {"queued": 1, "completed": 8}
    assert sums.queue_age_s == 0, "it has been started before"


def test_the_oldest_waiting_job_says_how_long_the_queue_is():
    service = CountingService()
    service.add(make_job("a-1", created_at=1_700_000_000.0 - 50))
    service.add(make_job("b-2", created_at=1_700_000_000.0 - 500))
    census, later = census_of(service)
    assert census.count().queue_age_s == 500
    later(5)
    assert census.count().queue_age_s == 505, "it grows between two looks"


def expressions():
    for path in BOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield f"{path.name}: {panel['title']}", target["expr"]
    for group in yaml.safe_load((ROOT / "prometheus" / "alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            yield f"alerts.yml: {rule['alert']}", rule["expr"]


def test_every_metric_that_is_asked_for_exists(http, service, finished):
    service.add(make_job("busy-1", state="running", best_value=0.7, default_value=0.5))
    http.get("/v1/jobs")
    there = names(http)
    asked = list(expressions())
    assert len(asked) > 20
    for where, expression in asked:
        # Names in label matchers and in by (...) are no metrics.
        found = set(OURS.findall(re.sub(r"\{[^}]*\}|\bby \([^)]*\)", "", expression)))
        assert found or "up{" in expression, f"{where} asks for nothing of ours"
        assert found <= there, f"{where}: {sorted(found - there)} is not served"


def test_every_label_that_is_asked_for_exists(http, service, finished):
    service.add(make_job("busy-1", state="running", best_value=0.7, default_value=0.5))
    http.get("/v1/jobs")
    labels = {label[0] for key in scrape(http) for label in key[1:]} | {"le", "job"}
    for where, expression in expressions():
        for matcher in re.findall(r"\{([^}]*)\}", expression):
            assert set(re.findall(r"(\w+)\s*(?:=~|!~|=|!=)", matcher)) <= labels, where
        for grouping in re.findall(r"\bby \(([^)]*)\)", expression):
            assert {name.strip() for name in grouping.split(",")} <= labels, where


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_complete_and_nothing_in_it_overlaps(path):
    board = json.loads(path.read_text())
    assert board["uid"] == f"autotune-{path.stem}"
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    source = yaml.safe_load((ROOT / "grafana/provisioning/datasources/prometheus.yml").read_text())["datasources"][0]
    taken = set()
    for panel in board["panels"]:
        assert panel["datasource"]["uid"] == source["uid"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        columns, rows = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        cells = {(x, y) for x in columns for y in rows}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_configuration_of_prometheus_names_files_that_exist():
    config = yaml.safe_load((ROOT / "prometheus" / "prometheus.yml").read_text())
    for name in config["rule_files"]:
        assert (ROOT / "prometheus" / name).is_file()
    assert config["scrape_configs"][0]["job_name"] == "autotune", "the alerts ask for up{job='autotune'}"


def test_jobs_at_work_are_told_apart_by_their_ids_and_ended_ones_are_not(http, service):
    service.add(
        make_job("busy-1", state="running", trials={"running": 2, "pruned": 1}, budget_trials=9, best_value=0.7)
    )
    service.add(make_job("over-1", state="completed", trials={"completed": 4}))
    found = scrape(http)
    assert found["autotune_job_trials", ("autotune_job", "busy-1"), ("state", "running")] == 2
    assert found["autotune_job_budget_trials", ("autotune_job", "busy-1")] == 9
    assert found["autotune_job_best_value", ("autotune_job", "busy-1")] == 0.7
    assert ("autotune_job_default_value", ("autotune_job", "busy-1")) not in found, "it has not completed"
    assert not [key for key in found if ("autotune_job", "over-1") in key]


def test_the_number_of_jobs_that_are_told_apart_has_an_end(http, service):
    for number in range(60):
        service.add(make_job(f"many-{number}", state="running", created_at=1_700_000_000.0 + number))
    told = {key[1][1] for key in scrape(http) if key[0] == "autotune_job_budget_trials"}
    assert len(told) == 50
    assert "many-59" in told
    assert "many-0" not in told
