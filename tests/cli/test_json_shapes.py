"""The shapes of ``--json`` are a promise: what is written in json_shapes.json changes only with the changelog."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from autotune.cli.main import app
from autotune.states import JobState
from tests.cli.shapes import PROMISED, shape
from tests.docs.prepared import PreparedHome
from tests.docs.reading import ROOT
from tests.fakes import finished_job, finished_trials, make_job

COMMANDS = {
    "jobs": ["jobs"],
    "show": ["show", "demo-1"],
    "best": ["best", "demo-1"],
    "best --overrides": ["best", "demo-1", "--overrides"],
    "export": ["export", "demo-1"],
    "register": ["register", "demo-1"],
    "logs": ["logs", "demo-1"],
    "report": ["report", "demo-1"],
    "plan": ["plan", "space.yaml"],
    "spaces": ["spaces"],
    "cancel": ["cancel", "demo-2"],
    "pause": ["pause", "demo-2"],
    "resume": ["resume", "demo-2"],
    "stop": ["stop", "demo-2"],
    "edit": ["edit", "demo-2", "--trials", "9"],
    "enqueue": ["enqueue", "demo-2", "lr=1e-4"],
    "watch": ["watch", "demo-1"],
    "launch": ["launch", "space.yaml"],
    "doctor": ["doctor"],
    "diagnose": ["diagnose", "demo-1", "0"],
}
ON_THE_MACHINE = {
    "token create": ["token", "create", "ada", "--role", "admin"],
    "token list": ["token", "list"],
    "token revoke": ["token", "revoke", "TOKEN"],
    "team set": ["team", "set", "rl", "--gpus", "16"],
    "team list": ["team", "list"],
    "db check": ["db", "check", "--no-mlflow"],
    "db backup": ["db", "backup", "backup.db"],
    "db prune": ["db", "prune", "curves"],
    "init": ["init", "-", "--gpus", "0"],
    "import-verl": ["import-verl", "run.sh"],
}
"""What works on the home itself and not on a service; one after the other, in one home."""
ELSEWHERE = {
    "serve": "tests/cli/test_process.py",
    "up": "tests/cli/test_up.py",
    "report --format json": "tests/cli/test_json_shapes.py",
}
"""Document -> the test that looks at its shape."""


@pytest.mark.parametrize("name", COMMANDS)
def test_the_json_of_every_command_keeps_its_shape(cli, space, name):
    cli.service.add(finished_job(), finished_trials())
    cli.service.add(make_job("demo-2", state="running"))
    cli.script = lambda service, job, on_tick: service.add(finished_job(job_id=job), finished_trials())
    done = cli(*COMMANDS[name], "--json")
    assert done.exit_code == 0, done.stderr
    assert shape(json.loads(done.stdout)) == PROMISED[name]


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    for name in ("AUTOTUNE_URL", "AUTOTUNE_TOKEN", "AUTOTUNE_DATABASE_URL", "AUTOTUNE_MLFLOW_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return PreparedHome(tmp_path)


def test_the_json_of_what_works_on_the_home_keeps_its_shape(prepared):
    found, token = {}, ""
    for name, words in ON_THE_MACHINE.items():
        done = CliRunner().invoke(app, [*(token if word == "TOKEN" else word for word in words), "--json"])
        assert done.exit_code == 0, (name, done.stderr)
        document = json.loads(done.stdout)
        found[name] = shape(document)
        token = token or document["about"]["id"]
    assert found == {name: PROMISED[name] for name in ON_THE_MACHINE}


def test_the_report_as_json_keeps_its_shape(prepared):
    job = prepared.job(JobState.COMPLETED)
    done = CliRunner().invoke(app, ["report", job, "--format", "json", "-o", "report.json"])
    assert done.exit_code == 0, done.stderr
    assert shape(json.loads(Path("report.json").read_text())) == PROMISED["report --format json"]


def test_the_snapshot_knows_every_document_and_no_other():
    assert set(PROMISED) == {*COMMANDS, *ON_THE_MACHINE, *ELSEWHERE}
    commands = typer.main.get_command(app)
    assert {name.split()[0] for name in PROMISED} == set(commands.commands)
    for name, file in ELSEWHERE.items():
        assert f'PROMISED["{name}"]' in (ROOT / file).read_text()
