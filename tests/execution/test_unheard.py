import json

import pytest

from autotune.execution.metrics_tail import CheckpointLine, StepLine
from autotune.execution.unheard import Unheard


def write(directory, *steps):
    with (directory / "metrics.jsonl").open("a") as file:
        for step in steps:
            file.write(json.dumps({"step": step, "metrics": {"loss": float(step)}}) + "\n")


def line(step):
    return StepLine(step=step, metrics={"loss": float(step)})


def steps(lines):
    return [one.step for one in lines if isinstance(one, StepLine)]


def test_what_nobody_heard_is_told_before_the_first_step_of_the_next_attempt(tmp_path):
    write(tmp_path, 1, 2, 3, 4, 5)
    left = Unheard(tmp_path, heard=2)
    assert steps(left.before((), ended=False)) == []
    assert steps(left.before((CheckpointLine(step=5, path="x"),), ended=False)) == []
    assert steps(left.before((line(6),), ended=False)) == [3, 4, 5, 6]
    assert steps(left.before((line(7),), ended=True)) == [7]


def test_a_step_that_is_taken_again_is_told_once(tmp_path):
    write(tmp_path, 1, 2, 3, 4, 5)
    assert steps(Unheard(tmp_path, heard=2).before((line(4), line(5)), ended=False)) == [3, 4, 5]


def test_an_attempt_with_nothing_left_to_do_tells_everything(tmp_path):
    write(tmp_path, 1, 2, 3)
    assert steps(Unheard(tmp_path, heard=1).before((), ended=True)) == [2, 3]


def test_steps_that_a_later_attempt_threw_away_are_not_told(tmp_path):
    write(tmp_path, 1, 2, 3, 4, 5, 6, 7)
    write(tmp_path, 4, 5)
    assert steps(Unheard(tmp_path, heard=3).before((), ended=True)) == [4, 5]


@pytest.mark.parametrize("text", ["", "\n", "{", '{"step": 3, "metrics": {"loss": 1}}\n{"step": 4, "met'])
def test_what_cannot_be_read_is_passed_over(tmp_path, text):
    (tmp_path / "metrics.jsonl").write_text(text)
    assert steps(Unheard(tmp_path, heard=-1).before((), ended=True)) == ([3] if "3" in text else [])


def test_a_trial_without_a_curve_has_nothing_left(tmp_path):
    assert Unheard(tmp_path, heard=-1).before((line(1),), ended=False) == (line(1),)
