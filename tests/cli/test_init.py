import json
from pathlib import Path

import pytest
import yaml

from autotune.errors import InvalidSpaceError

SCRIPT = Path(__file__).resolve().parents[1] / "backends" / "support" / "verl_scripts" / "gsm8k_ppo.sh"


def test_without_questions_a_file_is_written_and_the_next_commands_are_named(cli):
    done = cli("init", "--yes", "--gpus", "0")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "space.yaml\n"
    assert "next: autotune plan space.yaml" in done.stderr
    document = yaml.safe_load(Path("space.yaml").read_text())
    assert document["name"] == "my-search"
    assert document["trainer"]["overrides"] == {"model": "tiny", "data": "digits"}


def test_what_the_flags_leave_open_is_asked_for(cli):
    done = cli("init", "mine.yaml", text="\ntiny\narithmetic\n0\nthroughput\n")
    assert done.exit_code == 0, done.stderr
    document = yaml.safe_load(Path("mine.yaml").read_text())
    assert document["name"] == "mine"
    assert document["trainer"]["overrides"]["data"] == "arithmetic"
    assert document["objective"]["metric"] == "perf/tokens_per_s"
    assert "Goal" not in done.stdout


def test_a_question_that_nobody_answers_says_how_to_ask_none(cli):
    done = cli("init", text="")
    assert done.exit_code == 2
    assert "--yes" in done.stderr
    assert not Path("space.yaml").exists()


def test_a_file_of_prompts_is_named_by_its_absolute_path(cli):
    Path("rows.jsonl").write_text('{"prompt": "1+1=", "ground_truth": "2"}\n')
    done = cli("init", "--yes", "--gpus", "0", "--model", "smollm2", "--data", "rows.jsonl", "--reward", "gsm8k")
    assert done.exit_code == 0, done.stderr
    overrides = yaml.safe_load(Path("space.yaml").read_text())["trainer"]["overrides"]
    assert overrides["data.train_file"] == str(Path("rows.jsonl").absolute())
    assert overrides["reward.name"] == "gsm8k"


def test_nothing_is_overwritten_unless_it_is_wished(cli):
    Path("space.yaml").write_text("mine\n")
    refused = cli("init", "--yes")
    assert refused.exit_code == 5
    assert "--force" in refused.stderr
    assert Path("space.yaml").read_text() == "mine\n"
    assert cli("init", "--yes", "--force").exit_code == 0
    assert "search:" in Path("space.yaml").read_text()


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["--model", "/nowhere/model"], 4, "/nowhere/model"),
        (["--model", "smollm2", "--data", "nowhere.jsonl"], 4, "nowhere.jsonl"),
        (["--model", "smollm2"], 2, "--data"),
        (["--goal", "speed"], 2, "throughput"),
        (["--verl-script", "nowhere.sh"], 4, "nowhere.sh"),
        (["--python", "/opt/verl/bin/python"], 2, "--verl-script"),
        (["--gpus", "-1"], 2, "0"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(cli, flags, code, said):
    done = cli("init", "--yes", *flags)
    assert done.exit_code == code, done.stderr
    assert said in done.stderr
    assert not Path("space.yaml").exists()


def test_a_script_that_starts_verl_becomes_the_file_even_where_verl_is_not(cli, monkeypatch):
    def refuse(source, file):
        raise InvalidSpaceError("verl cannot run this: 1 problem.")

    monkeypatch.setattr(cli.service, "plan", refuse)
    done = cli("init", "run.yaml", "--verl-script", str(SCRIPT), "--python", "/opt/verl/bin/python", "--yes")
    assert done.exit_code == 0, done.stderr
    assert "warning: verl cannot run this" in done.stderr
    document = yaml.safe_load(Path("run.yaml").read_text())
    assert (document["name"], document["trainer"]["backend"]) == ("run", "verl")


def test_a_file_that_would_not_pass_is_not_written(cli, monkeypatch):
    def refuse(source, file):
        raise InvalidSpaceError("it cannot be used.")

    monkeypatch.setattr(cli.service, "plan", refuse)
    assert cli("init", "--yes").exit_code == 3
    assert not Path("space.yaml").exists()


def test_as_json_it_asks_nothing_and_a_dash_goes_to_stdout(cli):
    done = cli("init", "-", "--json", "--gpus", "0")
    document = json.loads(done.stdout)
    assert (document["path"], document["next"], document["notes"]) == (None, [], [])
    assert yaml.safe_load(document["space"])["name"] == "my-search"
    assert yaml.safe_load(cli("init", "-", "--yes", "--gpus", "0").stdout) == yaml.safe_load(document["space"])
