import pytest

from autotune.api import create_app
from autotune.cli.inprocess import InProcessTransport
from autotune.client import Client
from autotune.errors import NotFoundError
from autotune.settings import Settings
from autotune.views import ErrorView
from tests.fakes import FakeService, finished_job, finished_trials, make_job


@pytest.fixture
def service(tmp_path):
    return FakeService(tmp_path)


@pytest.fixture
def client(service, tmp_path):
    app = create_app(service, Settings(home=tmp_path))
    with Client("http://localhost", transport=InProcessTransport(app)) as client:
        yield client


def test_a_table_has_a_row_for_each_trial_with_its_parameters_and_its_reason(client, service):
    trials = finished_trials()
    job = client.open(service.add(finished_job(), trials).id)
    table = job.to_dataframe()
    assert list(table.index) == [trial.number for trial in trials]
    pruned = next(trial for trial in trials if trial.state == "pruned")
    assert table.loc[pruned.number, "pruner"] == pruned.reason.pruner
    for path, value in pruned.params.items():
        assert table.loc[pruned.number, path] == value


def test_a_table_of_curves_has_a_row_for_each_step_of_each_trial(client, service):
    job = client.open(service.add(finished_job(), finished_trials()).id)
    table = job.to_dataframe(curves=True)
    curves = service.curves_of[job.id]
    assert len(table) == sum(len(curve.steps) for curve in curves)
    assert list(table.columns[:2]) == ["trial", "step"]


def test_a_job_without_trials_gives_empty_tables(client, service):
    job = client.open(service.add(make_job(), []).id)
    service.curves_of[job.id] = []
    assert job.to_dataframe().empty
    assert job.to_dataframe(curves=True).empty


def test_a_notebook_shows_a_table_in_which_names_are_only_text(client, service):
    error = ErrorView(kind="no_trial", message="<script>alert(1)</script>", hint="")
    job = client.open(service.add(finished_job(error=error), finished_trials()).id)
    html = job._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert job.id in html
    assert job.view.state in repr(job)


def test_an_unknown_job_cannot_be_opened(client):
    with pytest.raises(NotFoundError, match="no job"):
        client.open("nothing-1")
