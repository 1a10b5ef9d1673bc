from __future__ import annotations

import json
import sqlite3
import subprocess

import httpx2
import optuna
import pytest
from mlflow.tracking import MlflowClient
from optuna_dashboard import wsgi

from tests.e2e.support import SPACE, Home

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def launched(home: Home) -> subprocess.CompletedProcess[str]:
    home.path.mkdir(parents=True)
    space = home.path.parent / "space.yaml"
    space.write_text(SPACE)
    return home.run("launch", str(space), "--json")


@pytest.fixture(scope="module")
def storage(home: Home, launched) -> optuna.storages.RDBStorage:
    return optuna.storages.RDBStorage(f"sqlite:///{home.path / 'autotune.db'}")


def test_launch_prints_one_json_document_on_stdout_and_succeeds(launched):
    assert launched.returncode == 0, launched.stderr
    document = json.loads(launched.stdout)
    assert document["job"]["state"] == "completed"
    assert document["job"]["trials"]["completed"] == 4


def test_the_progress_is_told_on_stderr(launched):
    assert "trial 0 completed after step 6" in launched.stderr
    assert "Traceback" not in launched.stderr


def test_the_database_holds_every_trial_with_its_whole_curve(home, launched):
    with sqlite3.connect(home.path / "autotune.db") as database:
        states = database.execute(
            "select number, state, last_step, value from autotune_trials order by number"
        ).fetchall()
        points = database.execute("select trial, count(*) from autotune_points group by trial").fetchall()
        jobs = database.execute("select id, state, lease_owner from autotune_jobs").fetchall()
    assert jobs == [("tiny-search-1", "completed", None)]
    assert [(number, state, step) for number, state, step, _ in states] == [(n, "completed", 6) for n in range(4)]
    assert all(0 < value <= 1 for *_, value in states)
    assert [count for _, count in points] == [7, 7, 7, 7]


def test_optuna_itself_reads_the_same_trials(home, storage):
    study = optuna.load_study(study_name="tiny-search-1", storage=storage)
    with sqlite3.connect(home.path / "autotune.db") as database:
        values = [row[0] for row in database.execute("select value from autotune_trials order by number")]
    assert [trial.state for trial in study.trials] == [optuna.trial.TrialState.COMPLETE] * 4
    assert [trial.value for trial in study.trials] == pytest.approx(values)
    assert study.best_value == pytest.approx(max(values))
    assert set(study.trials[0].params) == {"trainer.optim.lr", "algorithm.kl_ctrl.kl_coef", "trainer.ppo_epochs"}
    assert max(study.trials[1].intermediate_values) == 6


def test_the_dashboard_serves_the_study(storage):
    with httpx2.Client(transport=httpx2.WSGITransport(app=wsgi(storage)), base_url="http://dashboard") as dashboard:
        answer = dashboard.get("/api/studies")
    assert answer.status_code == 200
    assert "tiny-search-1" in {study["study_name"] for study in answer.json()["study_summaries"]}


def test_mlflow_holds_a_parent_run_with_a_child_for_each_trial(home, launched):
    client = MlflowClient(f"sqlite:///{home.path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("autotune")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    assert (len(parents), len(children)) == (1, 4)
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parents[0].info.run_id}
    assert {run.info.status for run in runs} == {"FINISHED"}
    history = client.get_metric_history(children[0].info.run_id, "reward/mean")
    assert sorted(metric.step for metric in history) == [1, 2, 3, 4, 5, 6]


def test_the_best_configuration_can_be_pasted(home, launched):
    answer = home.run("best", "tiny-search-1", "--json")
    assert answer.returncode == 0, answer.stderr
    best = json.loads(answer.stdout)
    assert best["default"]["number"] == 0
    assert any(override.startswith("trainer.optim.lr=") for override in best["overrides"])
    plain = home.run("best", "tiny-search-1", "--overrides")
    assert plain.stdout.split() == best["overrides"]


def test_the_report_stands_alone(home, launched):
    report = home.path / "jobs" / "tiny-search-1" / "report.html"
    text = report.read_text()
    assert "tiny-search-1" in text
    assert "<script src=" not in text


def test_logs_and_show_tell_about_the_trials(home, launched):
    shown = home.run("show", "tiny-search-1")
    assert shown.returncode == 0
    assert "completed" in shown.stdout
    logs = home.run("logs", "tiny-search-1", "--trial", "0")
    assert logs.returncode == 0
    assert "step 6/6" in logs.stdout


def test_a_finished_job_cannot_be_resumed(home, launched):
    answer = home.run("launch", "--resume", "tiny-search-1")
    assert answer.returncode == 5
    assert "nothing left to do" in answer.stderr
    assert answer.stdout == ""


def test_the_report_of_a_real_run_shows_what_base_and_best_answer(home, launched):
    report = json.loads((home.path / "jobs" / "tiny-search-1" / "report.json").read_text())
    assert len(report["samples"]) == 4
    assert all(one["base"] is not None and one["step"] == 6 for one in report["samples"])


def test_the_best_checkpoint_becomes_a_model_version_that_loads(home, launched):
    done = home.run("register", "tiny-search-1", "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    client = MlflowClient(tracking_uri=f"sqlite:///{home.path / 'mlflow.db'}")
    version = client.get_model_version("tiny-search", made["version"])
    assert version.run_id == made["run"]
    assert {"config.json", "model.safetensors"} <= {
        item.path.rpartition("/")[2] for item in client.list_artifacts(made["run"], "model/step_6")
    }
    again = json.loads(home.run("register", "tiny-search-1", "--json").stdout)
    assert (again["version"], again["created"]) == (made["version"], False)
