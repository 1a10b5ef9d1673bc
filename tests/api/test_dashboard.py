import optuna
import pytest
from starlette.testclient import TestClient

from autotune.access import LOCAL, Role
from autotune.api import create_app
from autotune.service import open_service
from autotune.settings import Settings
from autotune.store.optuna_artifacts import attach
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


@pytest.fixture(scope="module")
def kept(dashboard, tmp_path_factory):
    """A file beside the study; its path at the service."""
    settings = dashboard.app.state.settings
    storage = f"sqlite:///{settings.root / 'optuna.db'}"
    page = tmp_path_factory.mktemp("kept") / "report.html"
    page.write_text("<h1>Verdict</h1>", encoding="utf-8")
    attach(storage, "demo-1", settings.artifacts_dir, [page])
    (found,) = settings.artifacts_dir.iterdir()
    return f"/artifacts/1/{found.name}"


def test_a_file_beside_a_study_is_listed_and_can_be_downloaded(dashboard, kept):
    (listed,) = dashboard.get("/api/studies/1").json()["artifacts"]
    assert (listed["filename"], listed["mimetype"]) == ("report.html", "text/html")
    assert dashboard.get("/api/meta").json()["artifact_is_available"]
    answer = dashboard.get(kept)
    assert (answer.status_code, answer.text) == (200, "<h1>Verdict</h1>")


def test_a_file_may_do_no_more_than_a_report_and_is_not_for_other_sites(dashboard, kept):
    headers = dashboard.get(kept).headers
    assert "access-control-allow-origin" not in headers
    assert "sandbox allow-scripts" in headers["content-security-policy"]
    assert "default-src 'none'" in headers["content-security-policy"]


def test_files_are_neither_added_nor_deleted_by_who_only_looks(dashboard, kept):
    api = kept.replace("/artifacts/", "/api/artifacts/")
    for method, path in (("DELETE", api), ("POST", "/api/artifacts/1"), ("PUT", kept), ("DELETE", kept)):
        answer = dashboard.request(method, path, json={"file": "data:text/plain;base64,eA==", "filename": "x.txt"})
        assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
    assert dashboard.get(kept).status_code == 200


def test_no_file_outside_is_reached(dashboard, kept):
    for path in ("/artifacts/1/..%2F..%2Foptuna.db", "/artifacts/1/%2Fetc%2Fpasswd", "/artifacts/1/abc"):
        assert dashboard.get(path).status_code == 404


def test_with_tokens_a_file_needs_one_and_only_an_administrator_deletes_it(tmp_path):
    settings = Settings(home=tmp_path)
    service = open_service(settings)
    optuna.create_study(storage=settings.study_database, study_name="demo-1")
    page = tmp_path / "report.html"
    page.write_text("x", encoding="utf-8")
    attach(settings.study_database, "demo-1", settings.artifacts_dir, [page])
    (found,) = settings.artifacts_dir.iterdir()
    admin = service.access.issue(LOCAL, "ada", Role.ADMIN).token
    tokens = {role: service.access.issue(LOCAL, str(role), role).token for role in (Role.VIEWER, Role.OPERATOR)}
    app = create_app(service, settings, dashboard_storage_url=settings.study_database)
    http = TestClient(app, base_url="http://127.0.0.1:8765")
    file, api = f"/artifacts/1/{found.name}", f"/api/artifacts/1/{found.name}"
    assert http.get(file).status_code == 401
    for token in tokens.values():
        headers = {"Authorization": f"Bearer {token}"}
        assert http.get(file, headers=headers).text == "x"
        assert http.delete(api, headers=headers).status_code == 403
    assert http.delete(api, headers={"Authorization": f"Bearer {admin}"}).status_code == 204
    assert list(settings.artifacts_dir.iterdir()) == []
    service.store.close()
