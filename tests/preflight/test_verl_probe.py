"""One row of verl's data and one call of the reward, in verl's interpreter, before anything is spent."""

import sys

import pyarrow
import pyarrow.parquet
import pytest

from autotune.preflight.memory import Capacity
from autotune.preflight.probe import probe, probe_key
from autotune.preflight.trial import TrialContext

ROW = {
    "data_source": "openai/gsm8k",
    "prompt": [{"role": "user", "content": "What is 2 + 2?"}],
    "reward_model": {"style": "rule", "ground_truth": "4"},
    "extra_info": {"index": 0},
}
REWARD = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None, scale=1.0):
    print("called")
    return {"score": scale * (solution_str == ground_truth), "index": extra_info["index"]}

async def later(data_source, solution_str, ground_truth, extra_info=None):
    return 0.5

def broken(data_source, solution_str, ground_truth, extra_info=None):
    raise KeyError("no such source")

def text(data_source, solution_str, ground_truth, extra_info=None):
    return "good"
"""


@pytest.fixture
def look(tmp_path):
    (tmp_path / "reward.py").write_text(REWARD)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([ROW]), tmp_path / "train.parquet")

    def context(name=None, python=sys.executable, **config):
        values = {"data.train_files": str(tmp_path / "train.parquet"), "data.prompt_key": "prompt", **config}
        if name:
            values["reward.custom_reward_function.path"] = str(tmp_path / "reward.py")
            values["reward.custom_reward_function.name"] = name
        room = Capacity(bytes=None, host=False, source="test")
        return TrialContext(backend="verl", config=values, gpus=1, here=True, room=room, python=python)

    return context


def test_a_row_is_read_and_the_reward_called_on_its_own_answer(look):
    kwargs = {"reward.custom_reward_function.reward_kwargs.scale": 2.0}
    found = probe(look("compute_score", **kwargs))
    assert found.problems == ()
    row, reward = found.facts
    assert "asks 'What is 2 + 2?'" in row
    assert reward == "compute_score gives 2 for the first row's own answer"
    assert probe(look("later")).facts[1] == "later gives 0.5 for the first row's own answer"


@pytest.mark.parametrize(
    ("name", "words"), [("broken", "KeyError: 'no such source'"), ("text", "ValueError"), ("nothing", "AttributeError")]
)
def test_a_reward_that_cannot_be_used_is_found_with_what_it_said(look, name, words):
    (problem,) = probe(look(name)).problems
    assert problem.path == "reward.custom_reward_function.path"
    assert words in problem.message
    assert "compute_score(" in problem.hint


def test_a_column_that_verl_would_look_for_in_vain_is_named(look):
    (problem,) = probe(look(**{"data.prompt_key": "question"})).problems
    assert "has no column 'question'; it has data_source, prompt" in problem.message
    assert "data.prompt_key" in problem.hint


def test_a_file_that_is_none_of_its_kind_is_named(look, tmp_path):
    (tmp_path / "broken.parquet").write_text("nothing")
    (problem,) = probe(look(**{"data.val_files": [str(tmp_path / "broken.parquet")]})).problems
    assert "broken.parquet' cannot be read" in problem.message


def test_rows_as_json_lines_are_read_too(look, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"prompt": "Why?", "data_source": "mine"}')
    found = probe(look(**{"data.train_files": str(tmp_path / "rows.jsonl")}))
    assert found.problems == ()
    assert "asks 'Why?'" in found.facts[0]


def test_what_is_not_there_or_elsewhere_is_not_tried(look):
    assert probe_key(look(**{"data.train_files": "/nowhere/rows.parquet"})) == ""
    assert probe_key(look(**{"data.train_files": "hdfs://rows.parquet"})) == ""
    assert probe_key(look("broken")) == probe_key(look("broken"))
    assert probe_key(look("broken")) != probe_key(look("text"))
