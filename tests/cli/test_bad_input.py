"""What is empty, odd, hostile or very large leaves the command line useful."""

import json
from math import inf, nan

import pytest

from tests.fakes import finished_job, make_job, make_trial

HOSTILE = "<script>alert(1)</script> [bold]x[/bold] \u2603\U0001f40d \x1b[31m\x07"


def test_no_jobs_yet_says_how_to_start_one(cli):
    done = cli("jobs")
    assert done.exit_code == 0
    assert "no job yet; start one with: autotune launch quickstart" in done.stderr
    assert json.loads(cli("jobs", "--json").stdout) == {"jobs": [], "more": False}


def test_a_job_without_a_finished_trial_says_what_is_missing(cli):
    cli.service.add(make_job(state="running", trials={"running": 1}), [make_trial(0, state="running", value=None)])
    assert "running" in cli("show", "demo-1").stdout
    missing = cli("best", "demo-1")
    assert missing.exit_code == 4
    assert "no trial of job 'demo-1' has completed within the constraints" in missing.stderr
    assert cli("report", "demo-1").exit_code == 0


def test_a_job_with_one_trial_is_shown_with_it_as_the_best(cli):
    cli.service.add(finished_job(best_trial=0, best_value=0.5, trials={"completed": 1}), [make_trial(0)])
    assert "0*" in cli("show", "demo-1").stdout
    assert "trial 0 after 40 steps" in cli("best", "demo-1").stdout


def test_nan_everywhere_is_shown_and_is_null_in_json(cli):
    metrics = {"eval/reward": nan, "kl/actor_ref": inf, "perf/tokens_per_s": -inf}
    trial = make_trial(0, value=nan, metrics=metrics, violations={"kl/actor_ref <= 0.12": nan})
    cli.service.add(finished_job(best_trial=None, best_value=nan, default_value=nan), [trial])
    assert cli("show", "demo-1").exit_code == 0
    found = json.loads(cli("show", "demo-1", "--json").stdout, parse_constant=lambda name: pytest.fail(name))
    assert found["trials"][0]["value"] is None
    assert set(found["trials"][0]["metrics"].values()) == {None}


def test_names_with_markup_emoji_and_control_signs_are_text_and_cannot_drive_the_terminal(cli):
    cli.service.add(finished_job(description=HOSTILE), [make_trial(0, params={"a": HOSTILE}), make_trial(1)])
    for command in (["show", "demo-1"], ["jobs"], ["watch", "demo-1"]):
        done = cli(*command)
        assert done.exit_code == 0, done.stderr
        assert "\x1b" not in done.stdout + done.stderr
        assert "\x07" not in done.stdout + done.stderr
    assert "<script>alert(1)</script> [bold]x[/bold] \u2603\U0001f40d" in cli("show", "demo-1").stdout


def test_ten_thousand_trials_are_all_listed(cli):
    trials = [make_trial(number) for number in range(10_000)]
    cli.service.add(finished_job(best_trial=7, trials={"completed": 10_000}, budget_trials=10_000), trials)
    shown = cli("show", "demo-1").stdout.splitlines()
    assert sum(" completed " in line for line in shown) == 10_000
    assert any(line.startswith("7*") for line in shown)
