import dataclasses
import json

import pytest

from autotune.preflight.memory import Capacity
from autotune.preflight.probe import probe, probe_key
from autotune.preflight.trial import TrialContext
from trainer.config import build, compose, flatten

REWARD = """
import time

def share(prompt, response, ground_truth):
    print("called")
    return float(response == ground_truth)

def broken(prompt, response, ground_truth):
    raise KeyError("no such answer")

def endless(prompt, response, ground_truth):
    time.sleep(3600)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A directory with rewards and rows of one's own."""
    (tmp_path / "own_rewards.py").write_text(REWARD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    rows = [{"prompt": "What is 2 + 2?", "ground_truth": "4"}, {"prompt": "And 3 + 3?", "ground_truth": "6"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def trial(**overrides):
    chosen = {key.replace("__", "."): value for key, value in overrides.items()}
    values = flatten(dataclasses.asdict(build(compose("config", chosen))))
    room = Capacity(bytes=None, host=True, source="test")
    return TrialContext(backend="native", config=values, gpus=0, here=True, room=room)


def of_files(own, function="own_rewards:share", **more):
    files = {"data": "jsonl", "data__train_file": str(own / "rows.jsonl")}
    return trial(model="hf", **files, reward__name=None, reward__function=function, **more)


def test_rows_are_read_and_the_reward_is_called_on_the_first(own):
    found = probe(of_files(own))
    assert found.problems == ()
    rows, reward = found.facts
    assert rows.startswith("2 rows in ")
    assert "What is 2 + 2?" in rows
    assert reward == "own_rewards:share gives 1 for the answer and 0 for nothing"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("own_rewards:broken", "KeyError"),
        ("no_such_module:score", "no_such_module"),
    ],
)
def test_a_reward_that_cannot_be_called_is_found_before_anything_trains(own, function, words):
    (problem,) = probe(of_files(own, function)).problems
    assert words in problem.message
    assert problem.path.startswith("reward")


def test_a_reward_that_never_answers_is_given_up(own):
    found = probe(of_files(own, "own_rewards:endless", reward__timeout_s=1.0))
    (problem,) = found.problems
    assert "longer than 1 s" in problem.message
    (problem,) = probe(of_files(own, "own_rewards:endless"), timeout_s=0.01).problems
    assert "took longer than 0.01 s" in problem.message


def test_a_malformed_row_is_named_by_file_and_line(own):
    (own / "rows.jsonl").write_text('{"prompt": "a", "ground_truth": "b"}\n{"question": "?"}\n')
    problem = probe(of_files(own)).problems[0]
    assert "rows.jsonl:2" in problem.message
    assert problem.path == "data.train_file"


def test_what_ships_with_the_trainer_is_not_tried():
    assert probe_key(trial()) == ""


def test_trials_that_differ_elsewhere_share_one_probe(own):
    assert probe_key(of_files(own)) == probe_key(of_files(own, trainer__optim__lr=1e-3)) != ""
