from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainer.config import build
from trainer.data import Example
from trainer.loop import run_session
from trainer.loop.samples import SampleFile
from trainer.signals import StopFlag

LINE = {"step", "prompt", "ground_truth", "response", "reward"}


def rows(directory: Path) -> list[dict]:
    return [json.loads(line) for line in (directory / "samples.jsonl").read_text().splitlines()]


def example(index: int, prompt: str = "12") -> Example:
    return Example(index=index, prompt=prompt, ground_truth="34")


@pytest.mark.parametrize("given", [{}, {"algorithm": "dpo", "data": "digits_preferences"}], ids=["ppo", "dpo"])
def test_a_run_leaves_the_answers_of_the_base_and_of_the_trained_model(tmp_path, quick, given):
    run_session(build(quick({"trainer.eval_samples": 3, **given})), tmp_path, StopFlag())
    found = rows(tmp_path)
    assert [row["step"] for row in found] == [0, 0, 0, 4, 4, 4]
    assert {frozenset(row) for row in found} == {frozenset(LINE)}
    assert [row["prompt"] for row in found[:3]] == [row["prompt"] for row in found[3:]]
    assert all(0.0 <= row["reward"] <= 1.0 for row in found)


def test_the_rewards_are_those_that_the_evaluation_is_the_mean_of(tmp_path, quick, lines_of):
    run_session(build(quick({"trainer.eval_samples": 1000, "data.eval_size": 6})), tmp_path, StopFlag())
    last = [row["reward"] for row in rows(tmp_path) if row["step"] == 4]
    curve = [line for line in lines_of(tmp_path) if "metrics" in line]
    assert len(last) == 6
    assert sum(last) / 6 == pytest.approx(curve[-1]["metrics"]["eval/reward"])


def test_no_file_where_none_is_wanted(tmp_path, quick):
    run_session(build(quick({"trainer.eval_samples": 0, "trainer.total_steps": 1})), tmp_path, StopFlag())
    assert not (tmp_path / "samples.jsonl").exists()


def test_an_attempt_that_goes_on_keeps_what_the_base_said(tmp_path):
    SampleFile(tmp_path, count=1, enabled=True).keep(0, [example(0)], ["base"], [0.0])
    again = SampleFile(tmp_path, count=1, enabled=True)
    again.keep(3, [example(0)], ["three"], [0.5])
    again.keep(5, [example(0)], ["five"], [float("nan")])
    assert [(row["step"], row["response"], row["reward"]) for row in rows(tmp_path)] == [
        (0, "base", 0.0),
        (5, "five", None),
    ]


def test_what_is_very_long_is_cut_where_it_matters_least(tmp_path):
    asked = "x" * 5000 + "?"
    SampleFile(tmp_path, count=1, enabled=True).keep(0, [example(0, asked)], ["a" * 9000 + "z"], [1.0])
    (row,) = rows(tmp_path)
    assert (len(row["prompt"]), row["prompt"][-1], row["response"]) == (4000, "?", "a" * 4000)
