import dataclasses

import jsonschema
import pytest
import yaml

from autotune.backends import BACKENDS, get_backend
from autotune.search.pruners import PRUNERS as PRUNER_CLASSES
from autotune.search.samplers import SAMPLERS
from autotune.search.types import INFEASIBLE_KINDS, EndKind
from autotune.spec import known
from autotune.spec.aliases import ALIASES, resolve
from autotune.spec.catalogue import shipped_paths, shipped_spaces, spaces_dir
from autotune.spec.check import check_space
from autotune.spec.json_schema import space_schema
from autotune.spec.loader import load_space, read_space
from autotune.spec.pruning import PRUNERS
from autotune.spec.trainer import BACKENDS as SPEC_BACKENDS
from tests.backends.verl_wheel import interpreter, real_verl
from trainer.config import known_keys

SHIPPED = sorted(shipped_paths())


def test_the_shipped_spaces_are_found():
    assert {"quickstart", "ppo-effect"} <= set(SHIPPED)
    assert [space.name for space in shipped_spaces()] == SHIPPED
    assert spaces_dir().name == "search_spaces"
    assert all(space.description and space.path.is_file() for space in shipped_spaces())


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_space_fits_its_backend_and_says_where_it_comes_from(name, tmp_path):
    space = read_space(name)
    assert space.name == name
    trainer = space.trainer
    if trainer.backend == "verl":
        trainer = dataclasses.replace(trainer, python=interpreter(tmp_path, real_verl()))
    description = get_backend(trainer.backend).describe(trainer)
    check_space(space, description.config, description.metrics, space.budget.steps or description.steps)
    header = shipped_paths()[name].read_text().split("name:")[0]
    assert all(word in header for word in ("# Purpose:", "# Ranges:", "# Cost:"))


def test_the_quick_start_is_what_the_demo_promises():
    space = read_space("quickstart")
    assert (space.budget.trials, space.budget.parallel, space.budget.steps) == (12, 2, 40)
    assert {spec.name for spec in space.prune} == {"asha", "kl_ceiling", "reward_collapse", "not_finite"}
    assert space.start_from[0].label == "default"
    assert any(constraint.metric == "kl/actor_ref" for constraint in space.constraints)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_space_meets_the_json_schema(name):
    jsonschema.validate(dict(read_space(name).document), space_schema())


def test_the_json_schema_is_one_and_refuses_what_the_loader_refuses(text):
    schema = space_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid(yaml.safe_load(text(extends="quickstart", name=None, search=None, objective=None)))
    for changes in (
        {"name": "Bad Name"},
        {"budget": {"trials": 0}},
        {"objective": None},
        {"sampler": {"name": "tpee"}},
        {"prune": ["asha"]},
        {"prune": [{"asha": {"min_step": 3}}]},
        {"search": {}},
        {"search": {"a": {"flaot": [1, 2]}}},
        {"typo": 1},
        {"constraints": ["a < 1"]},
    ):
        assert not validator.is_valid(yaml.safe_load(text(**changes))), changes
        with pytest.raises(ValueError, match="problem"):
            load_space(text(**changes))


def test_every_short_name_leads_to_a_key_of_the_shipped_tree():
    keys = set(known_keys())
    assert {short: full for short, full in ALIASES.items() if full not in keys} == {}
    assert resolve("lr") == "trainer.optim.lr"
    assert resolve("trainer.optim.lr") == "trainer.optim.lr"
    assert not any("." in short for short in ALIASES)


def test_the_table_of_pruners_is_the_registry_of_pruners():
    assert set(PRUNERS) == set(PRUNER_CLASSES)
    for name, kind in PRUNERS.items():
        fields = {field.name: field for field in dataclasses.fields(PRUNER_CLASSES[name])}
        assert set(kind.options) == set(fields), name
        for key, option in kind.options.items():
            given = fields[key].default
            assert option.required == (given is dataclasses.MISSING), (name, key)
            assert option.required or option.default == given, (name, key)
            assert (
                option.required
                or option.default is None
                or isinstance(option.default, str)
                or option.bounds.allows(given)
            )


def test_the_known_words_are_the_registries():
    assert set(known.SAMPLERS) == set(SAMPLERS)
    assert set(SPEC_BACKENDS) == set(BACKENDS)
    ends = set(EndKind) - INFEASIBLE_KINDS - {EndKind.FINISHED, EndKind.STOPPED}
    assert set(known.RETRYABLE) == ends
    assert set(known.SYNONYMS.values()) <= ends
