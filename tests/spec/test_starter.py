import itertools

import pytest
import yaml

from autotune.errors import UsageError
from autotune.service.spaces import resolve_space
from autotune.spec.starter import BUILT_IN_DATA, GOALS, Wishes, first_space, slug
from trainer.config.compose import conf_dir


@pytest.mark.parametrize(("goal", "gpus"), list(itertools.product(GOALS, [0, 4])))
@pytest.mark.parametrize(("model", "data"), [("tiny", "digits"), ("/models/one", "/data/my prompts.jsonl")])
def test_every_first_space_is_one_that_can_be_run(model, data, goal, gpus):
    text = first_space(Wishes(name="mine", model=model, data=data, goal=goal, gpus=gpus))
    resolved = resolve_space(text, "space.yaml")
    assert resolved.space.name == "mine"
    assert resolved.base["model.path"] == model
    assert {part.space.resources.gpus for part in resolved.parts} == {1 if gpus else 0}
    assert len(resolved.stages) == (3 if goal == "all" else 0)
    assert "#" in text


@pytest.mark.parametrize(("goal", "steps"), list(itertools.product(GOALS, [1, 3, 8])))
def test_a_first_space_may_be_of_few_steps(goal, steps):
    text = first_space(Wishes(name="mine", goal=goal, steps=steps, trials=1))
    assert {part.steps for part in resolve_space(text, "space.yaml").parts} == {steps}


def test_what_was_wished_for_is_in_the_space():
    wishes = Wishes(
        name="mine",
        model="Qwen/Qwen2.5-0.5B",
        data="/data/train.parquet",
        eval_data="/data/test.parquet",
        reward="my_rewards:score",
        gpus=4,
        trials=7,
        steps=30,
    )
    space = resolve_space(first_space(wishes), "space.yaml").space
    overrides = space.trainer.overrides
    assert overrides["data.eval_file"] == "/data/test.parquet"
    assert (overrides["reward.name"], overrides["reward.function"]) == (None, "my_rewards:score")
    assert (space.budget.trials, space.budget.parallel, space.budget.steps) == (7, 4, 30)
    assert space.resources.gpus == 1


@pytest.mark.parametrize("name", ["true", "12", "a: b", "x #y", 'quo"te', "ünï", "line\nbreak"])
def test_a_path_of_any_shape_is_read_back_as_it_is(name):
    text = first_space(Wishes(name="mine", model=f"/models/{name}", data=f"/data/{name}.jsonl"))
    overrides = yaml.safe_load(text)["trainer"]["overrides"]
    assert overrides["model.path"] == f"/models/{name}"
    assert overrides["data.train_file"] == f"/data/{name}.jsonl"


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"goal": "efect"}, "effect"),
        ({"data": "digit"}, "digits"),
        ({"data": "rows.csv", "model": "m"}, ".parquet"),
        ({"data": "rows.jsonl"}, "--model"),
        ({"eval_data": "held.jsonl"}, "--eval-data"),
        ({"model": "m", "data": "a.jsonl", "eval_data": "b.parquet"}, "two JSONL files"),
        ({"reward": "my rewards:score"}, "module:function"),
        ({"model": " "}, "smollm2"),
    ],
)
def test_what_does_not_go_together_is_refused_with_what_would(wishes, said):
    with pytest.raises(UsageError) as refused:
        Wishes(name="mine", **wishes)
    assert said in f"{refused.value.message} {refused.value.hint}"


def test_the_built_in_data_are_options_of_the_trainer():
    options = {path.stem for path in (conf_dir() / "data").glob("*.yaml")}
    assert {*BUILT_IN_DATA, "jsonl", "parquet"} <= options


def test_a_name_is_made_of_any_text():
    assert slug("My Run, 2") == "my-run-2"
    assert slug("--") == ""
    assert len(slug("x" * 200)) == 63
