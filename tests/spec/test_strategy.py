import jsonschema
import pytest
import yaml

from autotune.errors import InvalidSpaceError
from autotune.spec.json_schema import space_schema
from autotune.spec.loader import load_space
from autotune.spec.types import Population


def problems(text):
    with pytest.raises(InvalidSpaceError) as caught:
        load_space(text)
    return "\n".join(str(problem) for problem in caught.value.problems)


def test_a_population_is_read_and_meets_the_schema(text):
    written = text(strategy={"pbt": {"interval": 10, "quantile": 0.5}})
    assert load_space(written).population == Population(
        interval=10, quantile=0.5, resample_probability=0.25, perturbation=1.2
    )
    jsonschema.validate(yaml.safe_load(written), space_schema())
    assert load_space(text()).population is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"strategy": {"pbt": {}}}, ["strategy.pbt", "interval"]),
        ({"strategy": {}}, ["strategy", "pbt"]),
        ({"strategy": {"pb": {"interval": 3}}}, ["'pb'", "pbt"]),
        ({"strategy": {"pbt": {"interval": 3, "quantile": 0.7}}}, ["quantile", "at most 0.5"]),
        ({"strategy": {"pbt": {"interval": 3, "perturbation": 1}}}, ["perturbation", "above 1"]),
        ({"budget": {"trials": 1}}, ["population of 1", "trials: 8"]),
        ({"prune": [{"asha": {"min_steps": 4}}, "median"]}, ["asha, median", "kl_ceiling"]),
        ({"finalists": {"top": 2}}, ["Remove `finalists`"]),
        (
            {"objective": None, "objectives": [{"metric": "eval/reward"}, {"metric": "kl/actor_ref"}]},
            ["one objective", "constraints"],
        ),
    ],
)
def test_what_does_not_go_with_a_population_is_refused(text, changes, words):
    told = problems(text(**{"strategy": {"pbt": {"interval": 3}}, **changes}))
    assert all(word in told for word in words), told


def test_stages_and_a_population_do_not_go_together(text):
    stage = {"name": "one", "search": {"lr": {"float": [1e-6, 1e-5]}}, "objective": {"metric": "eval/reward"}}
    stages = [{**stage, "budget": {"trials": 4}}]
    beside = text(
        search=None, objective=None, budget=None, strategy={"pbt": {"interval": 3}}, stages=stages
    )  # fmt: skip
    assert "schedule of values" in problems(beside)
    inside = text(
        search=None, objective=None, budget=None, stages=[{**stages[0], "strategy": {"pbt": {"interval": 3}}}]
    )
    assert "'strategy'" in problems(inside)
