import jsonschema
import pytest
import yaml

from autotune.spec.json_schema import space_schema
from autotune.spec.loader import load_space
from autotune.spec.types import Finalists


def test_gpu_hours_and_finalists_are_read_and_meet_the_schema(text):
    written = text(
        budget={"trials": 4, "gpu_hours": 12.5}, resources={"gpus": 2}, finalists={"top": 2, "seeds": 5}
    )  # fmt: skip
    space = load_space(written)
    assert space.budget.gpu_hours == 12.5
    assert space.finalists == Finalists(top=2, seeds=5)
    jsonschema.validate(yaml.safe_load(written), space_schema())


def test_without_them_there_is_no_limit_and_nobody_runs_again(text):
    space = load_space(text())
    assert (space.budget.gpu_hours, space.finalists) == (None, None)
    assert load_space(text(finalists={})).finalists == Finalists(top=3, seeds=3)


@pytest.mark.parametrize("pruner", ["median", "plateau", "eval_decline", "entropy_collapse", "length_blowup"])
def test_a_pruner_without_required_options_may_be_named_bare(text, pruner):
    written = text(prune=[pruner])
    assert load_space(written).prune[0].name == pruner
    jsonschema.validate(yaml.safe_load(written), space_schema())
