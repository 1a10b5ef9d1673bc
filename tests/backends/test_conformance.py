"""What every backend keeps to. A new backend adds a row to CASES and passes the same tests."""

import dataclasses
import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from autotune.backends import BACKENDS, Backend, get_backend
from autotune.errors import InvalidConfigError, UsageError
from autotune.spec.types import MetricsSpec, TrainerSpec
from tests.backends.verl_wheel import interpreter, real_verl


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A working trainer section and three ways to break it."""

    good: TrainerSpec
    override: tuple[str, object]
    unknown_config: str
    unknown_key: str
    bad_value: tuple[str, object]


VERL = {
    "trainer.total_steps": 7,
    "trainer.n_gpus_per_node": 2,
    "trainer.ppo_micro_batch_size_per_gpu": 4,
    "model.path": "Qwen/Qwen2-7B-Instruct",
}

CASES: Mapping[str, Case] = {
    "native": Case(
        good=TrainerSpec(backend="native", overrides={"trainer.total_steps": 7}),
        override=("trainer.optim.lr", 2.5e-5),
        unknown_config="confg",
        unknown_key="algorithm.clip_rato",
        bad_value=("algorithm.gamma", "much"),
    ),
    "command": Case(
        good=TrainerSpec(
            backend="command",
            config="",
            command=("python3", "-c", "print({lr})"),
            parameters={"lr": 0.001, "optim.name": "adam"},
            metrics=MetricsSpec(read="jsonl", names={"eval/loss": "loss"}),
            steps=7,
        ),
        override=("lr", 2.5e-5),
        unknown_config="confg",
        unknown_key="optim.nam",
        bad_value=("lr", "much"),
    ),
    "verl": Case(
        good=TrainerSpec(backend="verl", config="ppo_trainer", overrides=VERL),
        override=("trainer.optim.lr", 2.5e-5),
        unknown_config="confg",
        unknown_key="algorithm.clip_rato",
        bad_value=("algorithm.gamma", "much"),
    ),
}


@pytest.fixture(params=sorted(BACKENDS))
def name(request) -> str:
    return request.param


@pytest.fixture
def backend(name) -> Backend:
    return get_backend(name, 2.0)


@pytest.fixture
def case(name, tmp_path_factory) -> Case:
    case = CASES[name]
    if name == "verl":
        python = interpreter(tmp_path_factory.getbasetemp() / "verl", real_verl())
        case = dataclasses.replace(case, good=dataclasses.replace(case.good, python=python))
    return case


def with_overrides(trainer: TrainerSpec, **overrides) -> TrainerSpec:
    return dataclasses.replace(trainer, overrides={**trainer.overrides, **overrides})


def test_every_backend_is_tested_here():
    assert set(CASES) == set(BACKENDS)


def test_a_backend_answers_to_its_name(backend, name):
    assert backend.name == name


def test_an_unknown_backend_lists_the_choices_and_the_nearest():
    with pytest.raises(UsageError, match="known are") as caught:
        get_backend("nativ")
    assert "'native'" in caught.value.hint


def test_the_description_is_flat_complete_and_json_safe(backend, case):
    description = backend.describe(case.good)
    assert json.loads(json.dumps(description.config, allow_nan=False)) == dict(description.config)
    assert not any(isinstance(value, dict) and value for value in description.config.values())
    assert description.config[description.steps_path] == description.steps
    assert isinstance(description.config[description.seed_path], int)
    assert description.metrics
    assert all(text for text in description.metrics.values())


def test_overrides_are_in_the_description(backend, case):
    path, value = case.override
    assert backend.describe(with_overrides(case.good, **{path: value})).config[path] == value


def test_the_description_is_the_same_each_time_and_survives_pickling(backend, case):
    first = backend.describe(case.good)
    assert dict(first.config) == dict(backend.describe(case.good).config)
    assert pickle.loads(pickle.dumps(dict(first.config))) == dict(first.config)


def test_an_unknown_configuration_is_a_problem_of_trainer_config(backend, case):
    with pytest.raises(InvalidConfigError) as caught:
        backend.describe(dataclasses.replace(case.good, config=case.unknown_config))
    assert [problem.path for problem in caught.value.problems] == ["trainer.config"]
    assert case.unknown_config in caught.value.problems[0].message
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems


def test_an_unknown_override_and_a_bad_value_name_their_keys_in_the_space_file(backend, case):
    for key, value in ((case.unknown_key, 1), case.bad_value):
        with pytest.raises(InvalidConfigError) as caught:
            backend.describe(with_overrides(case.good, **{key: value}))
        assert [problem.path for problem in caught.value.problems] == [f"trainer.overrides.{key}"]


def test_what_is_described_passes_the_check_and_a_bad_value_does_not(backend, case):
    config = backend.describe(case.good).config
    assert backend.check(config) == ()
    key, value = case.bad_value
    problems = backend.check({**config, key: value})
    assert [problem.path for problem in problems] == [key]
    assert repr(value) in problems[0].message


def test_a_configuration_with_a_key_missing_does_not_pass_the_check(backend, case):
    config = dict(backend.describe(case.good).config)
    key = case.override[0]
    del config[key]
    assert [problem.path for problem in backend.check(config)] == [key]


def test_prepare_writes_a_configuration_that_is_read_back_whole(backend, case, tmp_path):
    directory = tmp_path / "trials" / "0003"
    config = {**backend.describe(case.good).config, case.override[0]: 1e-6}
    command = backend.prepare(config, directory)
    assert [path.name for path in directory.iterdir()] == ["config.yaml"]
    node = yaml.safe_load((directory / "config.yaml").read_text())
    for part in case.override[0].split("."):
        node = node[part]
    assert float(node) == 1e-6
    assert command.argv
    assert Path(command.argv[0]).is_file()
    assert all(isinstance(key, str) and isinstance(value, str) for key, value in command.env.items())
    assert command.env["OMP_NUM_THREADS"] == "2"


def test_prepare_replaces_an_older_configuration(backend, case, tmp_path):
    config = backend.describe(case.good).config
    backend.prepare(config, tmp_path)
    before = (tmp_path / "config.yaml").read_bytes()
    backend.prepare({**config, case.override[0]: 3e-6}, tmp_path)
    assert (tmp_path / "config.yaml").read_bytes() != before
    backend.prepare(config, tmp_path)
    assert (tmp_path / "config.yaml").read_bytes() == before


def test_prepare_leaves_nothing_half_written(backend, case, tmp_path):
    config = backend.describe(case.good).config
    with pytest.raises(ValueError, match="JSON"):
        backend.prepare({**config, case.override[0]: float("nan")}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_describing_leaves_the_environment_alone(backend, case):
    before = (dict(os.environ), Path.cwd())
    backend.describe(case.good)
    assert (dict(os.environ), Path.cwd()) == before


def test_a_configuration_can_be_run_by_hand(backend, case):
    path, value = case.override
    description = backend.describe(case.good)
    words = backend.command_line(case.good, {**description.config, path: value})
    assert all(isinstance(word, str) and "{" not in word for word in words)
    assert any("2.5e-05" in word for word in words)
    assert not any(str(word).startswith("backend.") for word in words)
