"""The quick start in three stages, for real: Ray, processes, training; each stage builds on the one before."""

from __future__ import annotations

import json
import subprocess

import optuna
import pytest
import yaml

from tests.e2e.support import Home
from trainer.config import compose, flatten

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def launched(home: Home) -> subprocess.CompletedProcess[str]:
    home.path.mkdir(parents=True)
    return home.run("launch", "quickstart-three-stage", "--json", timeout=840.0)


def test_every_stage_passes_its_criteria(launched):
    assert launched.returncode == 0, launched.stderr
    job = json.loads(launched.stdout)["job"]
    assert job["state"] == "completed"
    assert [(stage["name"], stage["state"]) for stage in job["stages"]] == [
        ("stay-alive", "passed"),
        ("throughput", "passed"),
        ("effect", "passed"),
    ]
    assert all(check["holds"] for stage in job["stages"] for check in stage["checks"])


def test_the_winner_of_each_stage_is_what_the_next_one_starts_from(launched, home):
    document = json.loads(launched.stdout)
    fast = json.loads(home.run("show", document["job"]["id"], "--stage", "throughput", "--json").stdout)
    winner = fast["job"]["stages"][1]["best_trial"]
    micro = next(trial for trial in fast["trials"] if trial["number"] == winner)["params"]
    given = (override.partition("=") for override in document["best"]["overrides"])
    built = flatten(compose(overrides={path: yaml.safe_load(value) for path, _, value in given}))
    # Which one is fastest is the machine's affair; one that is the configuration's own is not written again.
    assert {path: built[path] for path in micro} == micro
    assert document["best"]["trial"]["stage"] == "effect"
    assert document["best"]["improvement"] > 0


def test_the_end_of_each_stage_is_told(launched):
    for name in ("stay-alive", "throughput", "effect"):
        assert f"stage {name} begins" in launched.stderr
    assert "stage throughput passed with trial" in launched.stderr


def test_optuna_has_a_study_for_each_stage(launched, home):
    storage = optuna.storages.RDBStorage(f"sqlite:///{home.path / 'autotune.db'}")
    job = json.loads(launched.stdout)["job"]["id"]
    counts = {summary.study_name: summary.n_trials for summary in optuna.get_all_study_summaries(storage)}
    assert counts == {f"{job}/stay-alive": 2, f"{job}/throughput": 4, f"{job}/effect": 7}
