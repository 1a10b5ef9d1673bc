"""Tokens and teams from the command line, over the real service of a home of its own."""

import json

import pytest
from typer.testing import CliRunner

from autotune.api import create_app
from autotune.cli.main import app
from autotune.service import open_service
from autotune.settings import Settings
from tests.serving import served


@pytest.fixture
def run(tmp_path, monkeypatch):
    for name in ("AUTOTUNE_URL", "AUTOTUNE_TOKEN", "AUTOTUNE_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path))
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def test_a_token_is_shown_once_listed_without_its_secret_and_revoked(run):
    made = run("token", "create", "ada", "--role", "admin", "--expires", "90d")
    assert made.exit_code == 0, made.stderr
    token = made.stdout.strip()
    token_id = token.split("_")[1]
    assert "not shown again" in made.stderr
    listed = run("token", "list")
    assert token_id in listed.stdout
    assert token not in listed.stdout
    assert run("token", "revoke", token_id).stdout == f"token {token_id} of ada is revoked\n"
    assert "revoked" in run("token", "list").stdout
    assert run("token", "revoke", token_id).exit_code == 5
    assert run("token", "revoke", "nothing").exit_code == 4


def test_the_first_token_and_its_time_must_make_sense(run):
    refused = run("token", "create", "bob")
    assert (refused.exit_code, "autotune token create YOUR_NAME --role admin" in refused.stderr) == (5, True)
    assert run("token", "create", "ada", "--role", "admin", "--expires", "soon").exit_code == 2
    assert run("token", "create", "a b", "--role", "admin").exit_code == 2
    assert json.loads(run("token", "list", "--json").stdout) == {"tokens": []}


def test_quotas_are_set_and_listed(run):
    assert run("team", "set", "rl", "--gpus", "16", "--share", "2").exit_code == 0
    teams = json.loads(run("team", "list", "--json").stdout)["teams"]
    assert teams == [{"name": "rl", "parallel_gpus": 16.0, "gpu_hours_a_month": None, "share": 2.0}]
    assert run("team", "set", "rl", "--share", "0").exit_code == 2


def test_the_command_line_shows_its_token_to_a_service(run, tmp_path, monkeypatch):
    token = run("token", "create", "ada", "--role", "admin").stdout.strip()
    viewer = run("token", "create", "vera").stdout.strip()
    settings = Settings(home=tmp_path)
    with served(create_app(open_service(settings), settings)) as url:
        monkeypatch.setenv("AUTOTUNE_URL", url)
        nobody = run("jobs")
        assert (nobody.exit_code, "AUTOTUNE_TOKEN" in nobody.stderr) == (6, True)
        monkeypatch.setenv("AUTOTUNE_TOKEN", viewer)
        assert run("jobs").exit_code == 0
        assert run("token", "list").exit_code == 6
        monkeypatch.setenv("AUTOTUNE_TOKEN", token)
        assert "vera" in run("token", "list").stdout
