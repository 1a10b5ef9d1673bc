from __future__ import annotations

import pytest

from autotune.errors import InvalidSpaceError
from autotune.spec.check import check_space
from autotune.spec.json_schema import space_schema
from autotune.spec.loader import load_space
from autotune.spec.types import Direction, Reduce

HEAD = (
    "name: mine\nsearch: {lr: {float: [1e-5, 1e-3], log: true}, clip_ratio: {float: [0.1, 0.3]}}\nbudget: {trials: 4}\n"
)
TWO = """objectives:
  - {metric: eval/reward, smooth: 3}
  - {metric: response/length_mean, direction: minimize, reduce: area}
"""


def problems(text):
    with pytest.raises(InvalidSpaceError) as caught:
        load_space(text)
    return caught.value.problems


def test_several_objectives_stand_behind_the_first_in_the_order_of_the_file():
    objective = load_space(HEAD + TWO).objective
    assert [one.metric for one in objective.each] == ["eval/reward", "response/length_mean"]
    assert objective.smooth == 3
    second = objective.each[1]
    assert (second.direction, second.reduce, second.also) == (Direction.MINIMIZE, Reduce.AREA, ())


def test_a_list_of_one_is_one_objective():
    assert load_space(HEAD + "objectives: [{metric: a}]\n").objective.also == ()


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("objective: {metric: a}\n" + TWO, "objectives", "both given"),
        ("objectives: [{metric: a}, {metric: a}]\n", "objectives[1]", "an objective already"),
        ("objectives: []\n", "objectives", "no objective"),
        ("objectives: {metric: a}\n", "objectives", "must be a list"),
        ("objectives: [a]\n", "objectives[0]", "must be a mapping"),
        ("objectives: [{metric: a, direktion: minimize}]\n", "objectives[0].direktion", "unknown key"),
        ("objectives: [{metric: a}, {metric: b, reduce: best}]\n", "objectives[1].reduce", "known are last, max"),
        ("objectives: [{metric: a},{metric: b},{metric: c},{metric: d},{metric: e}]\n", "objectives", "at most 4"),
        (TWO + "sampler: {name: cmaes}\n", "objectives", "'cmaes' knows one objective, here are 2"),
    ],
)
def test_what_is_wrong_with_objectives_is_said_at_its_place(text, path, words):
    found = [problem for problem in problems(HEAD + text) if problem.path == path]
    assert found
    assert words in found[0].message


def test_an_unknown_metric_of_an_objective_names_the_nearest():
    space = load_space(HEAD + TWO.replace("length_mean", "length_men"))
    base = {"trainer.optim.lr": 1e-4, "algorithm.clip_ratio": 0.2}
    with pytest.raises(InvalidSpaceError) as caught:
        check_space(space, base, {"eval/reward": "", "response/length_mean": ""}, steps=40)
    found = next(p for p in caught.value.problems if p.path == "objectives[1].metric")
    assert "response/length_men" in found.message
    assert "response/length_mean" in found.hint
    assert found.line == 6


def test_the_schema_takes_one_objective_or_several():
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(space_schema())
    document = {"name": "a", "search": {"lr": {"float": [0, 1]}}, "budget": {"trials": 1}}
    assert validator.is_valid({**document, "objective": {"metric": "m"}})
    assert validator.is_valid({**document, "objectives": [{"metric": "m"}, {"metric": "n", "reduce": "area"}]})
    assert not validator.is_valid(document)
