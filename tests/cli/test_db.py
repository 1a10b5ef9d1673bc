import json
import sqlite3

import pytest
from typer.testing import CliRunner

from autotune.cli.main import app

SPACE = """
name: kept
trainer: {overrides: {data: digits, model: tiny}}
search: {lr: {float: [1e-5, 1e-3], log: true}}
objective: {metric: eval/reward}
budget: {trials: 2, steps: 4}
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    for name in ("AUTOTUNE_URL", "AUTOTUNE_TOKEN", "AUTOTUNE_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.fixture
def abandoned(run, tmp_path):
    """A job that the database calls running while nobody runs it."""
    from autotune.service import open_service
    from autotune.settings import load_settings

    service = open_service(load_settings())
    job = service.submit(SPACE, "space.yaml")[0].id
    service.store.close()
    with sqlite3.connect(tmp_path / "home" / "autotune.db") as database:
        database.execute("UPDATE autotune_jobs SET state = 'running', started_at = 1.0")
    database.close()
    return job


def test_what_does_not_fit_is_told_and_put_right_on_demand(run, abandoned):
    told = run("db", "check", "--no-mlflow")
    assert told.exit_code == 5
    assert f"{abandoned}: job: it is running, and its driver is gone" in told.stdout
    assert "autotune db check --repair" in told.stderr
    assert run("db", "check", "--no-mlflow", "--repair").exit_code == 0
    clean = run("db", "check", "--no-mlflow", "--json")
    assert (clean.exit_code, json.loads(clean.stdout)) == (0, {"findings": [], "left": 0})


def test_a_backup_is_written_once(run, abandoned, tmp_path):
    target = tmp_path / "copy.db"
    assert str(target) in run("db", "backup", str(target)).stdout
    assert run("db", "backup", str(target)).exit_code == 5
    assert run("db", "backup", str(tmp_path / "no" / "such" / "place.db")).exit_code == 6


def test_pruning_says_when_there_is_nothing_and_refuses_what_it_does_not_know(run, abandoned):
    assert "any curves left to take" in run("db", "prune", "curves").stderr
    assert run("db", "prune", "everything").exit_code == 2
    assert run("db", "prune", "curves", "--older", "long ago").exit_code == 2


def test_a_database_elsewhere_is_not_looked_after_from_here(run, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_URL", "http://127.0.0.1:1")
    refused = run("db", "check")
    assert (refused.exit_code, "where it is" in refused.stderr) == (2, True)
