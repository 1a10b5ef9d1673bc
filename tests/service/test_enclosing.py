"""A job's report and its best configuration lie beside its study in Optuna and beside its run in MLflow."""

import json
from pathlib import Path

import mlflow.artifacts
import optuna
import pytest
import yaml
from mlflow.tracking import MlflowClient
from optuna.artifacts import get_all_artifact_meta

from autotune.errors import UnreachableError
from autotune.service.enclosing import enclose, enclose_or_later
from autotune.service.mirroring import catch_up
from autotune.settings import Settings
from autotune.store.optuna_artifacts import open_files
from autotune.store.optuna_storage import open_storage


@pytest.fixture
def ended(service, source, drive):
    """A job that has ended, with its mirrors brought up to it."""
    job = service.submit(source, "space.yaml")[0].id
    with service.store.begin() as work:
        work.connection.exec_driver_sql("UPDATE autotune_jobs SET started_at = 1.0")
        work.connection.exec_driver_sql("UPDATE autotune_studies SET started_at = 1.0")
    drive(service, job)
    catch_up(service, job)
    return job


def beside_the_study(service):
    study = optuna.load_study(study_name="small-1", storage=open_storage(service.settings.study_database))
    kept = open_files(service.settings.artifacts_dir)
    return [(meta.filename, kept.open_reader(meta.artifact_id).read()) for meta in get_all_artifact_meta(study)]


def beside_the_run(service, job, name):
    found = mlflow.artifacts.download_artifacts(
        run_id=service.job(job).mlflow_run, artifact_path=name, tracking_uri=service.settings.tracking_uri
    )
    return Path(found).read_bytes()


def test_both_mirrors_have_the_report_and_the_best_configuration_of_a_job_that_has_ended(service, ended):
    report = service.report(ended).read_bytes()
    found = dict(beside_the_study(service))
    assert sorted(found) == ["best_config.yaml", "report.html"]
    assert found["report.html"] == report == beside_the_run(service, ended, "report.html")
    best = service.best(ended).trial
    assert f"trial {best.number} " in found["best_config.yaml"].decode().splitlines()[0]
    rate = yaml.safe_load(found["best_config.yaml"])["trainer"]["optim"]["lr"]
    assert rate == best.params["trainer.optim.lr"]
    assert found["best_config.yaml"] == beside_the_run(service, ended, "best_config.yaml")


def test_the_jobs_run_in_mlflow_has_what_was_resolved_too(service, ended):
    assert yaml.safe_load(beside_the_run(service, ended, "space.yaml")) == service.document(ended)
    config = json.loads(beside_the_run(service, ended, "config.json"))
    assert {"trainer.optim.lr", "trainer.total_steps"} <= set(config)


def test_enclosing_twice_doubles_nothing_and_a_report_that_changed_replaces_the_old_one(service, ended):
    before = beside_the_study(service)
    enclose(service, ended)
    assert beside_the_study(service) == before
    service.report(ended).write_text("another", encoding="utf-8")
    enclose(service, ended)
    assert sorted(name for name, _ in beside_the_study(service)) == ["best_config.yaml", "report.html"]
    assert dict(beside_the_study(service))["report.html"] == b"another"
    assert beside_the_run(service, ended, "report.html") == b"another"
    client = MlflowClient(tracking_uri=service.settings.tracking_uri)
    names = [file.path for file in client.list_artifacts(service.job(ended).mlflow_run)]
    assert sorted(names) == ["best_config.yaml", "config.json", "report.html", "space.yaml"]


def test_each_trial_in_optuna_leads_to_its_run_in_mlflow(service, ended):
    study = optuna.load_study(study_name="small-1", storage=open_storage(service.settings.study_database))
    client = MlflowClient(tracking_uri=service.settings.tracking_uri)
    assert study.user_attrs["mlflow"].endswith(f"/runs/{service.job(ended).mlflow_run}")
    for trial in study.trials:
        address, _, run = trial.user_attrs["mlflow"].rpartition("/runs/")
        assert client.get_run(run).data.tags["autotune.trial"] == str(trial.number)
        assert address.startswith("http://127.0.0.1:5000/#/experiments/")


def test_where_mlflow_does_not_answer_the_service_sees_to_it_later(service, ended):
    service.settings = Settings(home=service.settings.home, mlflow_uri="http://127.0.0.1:1")
    with pytest.raises(UnreachableError, match="MLflow"):
        enclose(service, ended)
    enclose_or_later(service, ended)
    with service.store.read() as work:
        assert list(work.jobs.behind(service.clock.now())) == [ended]


def test_a_link_to_a_server_tells_no_password():
    settings = Settings(mlflow_uri="https://ada:secret@mlflow.example.org/tracking/")
    assert settings.mlflow_pages == "https://mlflow.example.org/tracking"
