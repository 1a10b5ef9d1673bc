import optuna
import pytest
from starlette.testclient import TestClient

from autotune.api import create_app
from autotune.settings import Settings
from tests.fakes import FakeService


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory):
    home = tmp_path_factory.mktemp("dashboard")
    url = f"sqlite:///{home / 'optuna.db'}"
    study = optuna.create_study(storage=url, study_name="demo-1", direction="maximize")
    study.add_trial(
        optuna.trial.create_trial(
            params={"lr": 0.1}, distributions={"lr": optuna.distributions.FloatDistribution(0.0, 1.0)}, value=0.5
        )
    )
    app = create_app(FakeService(home), Settings(home=home), dashboard_storage_url=url)
    return TestClient(app, base_url="http://127.0.0.1:8765")


def test_the_dashboard_answers_on_our_port_with_the_study(dashboard):
    page = dashboard.get("/dashboard")
    assert page.status_code == 200
    assert "Optuna Dashboard" in page.text
    studies = dashboard.get("/api/studies").json()["study_summaries"]
    assert [study["study_name"] for study in studies] == ["demo-1"]
    detail = dashboard.get(f"/api/studies/{studies[0]['study_id']}").json()
    assert [trial["values"] for trial in detail["trials"]] == [[0.5]]


def test_a_database_without_any_job_yet_shows_an_empty_list(tmp_path):
    url = f"sqlite:///{tmp_path / 'fresh.db'}"
    app = create_app(FakeService(tmp_path), Settings(home=tmp_path), dashboard_storage_url=url)
    client = TestClient(app, base_url="http://127.0.0.1:8765")
    assert client.get("/dashboard").status_code == 200
    assert client.get("/api/studies").json()["study_summaries"] == []


def test_what_the_page_loads_is_served_too(dashboard):
    assert dashboard.get("/static/bundle.js").status_code == 200
    assert dashboard.get("/dashboard/studies/1").status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/studies"),
        ("DELETE", "/api/studies/1"),
        ("POST", "/api/studies/1/rename"),
        ("PUT", "/api/studies/1/note"),
        ("POST", "/api/trials/1/tell"),
        ("POST", "/incompatible-rdb-schema"),
    ],
)
def test_whatever_changes_a_study_is_refused(dashboard, method, path):
    answer = dashboard.request(method, path, json={"study_name": "mine", "directions": ["minimize"]})
    assert answer.status_code == 403
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "not_allowed"
    assert [study["study_name"] for study in dashboard.get("/api/studies").json()["study_summaries"]] == ["demo-1"]


def test_paths_of_nobody_are_our_404_and_not_the_dashboards(dashboard):
    for path in ("/nowhere", "/dashboards", "/v1/nothing"):
        answer = dashboard.get(path)
        assert answer.status_code == 404
        assert answer.json()["code"] == "not_found"


def test_without_a_storage_there_is_no_dashboard(http):
    answer = http.get("/dashboard")
    assert answer.status_code == 404
    assert "autotune serve" in answer.json()["hint"]
