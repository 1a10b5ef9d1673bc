"""verl's real configuration for the tests of its backend."""

import json
from pathlib import Path

import pytest

from autotune.backends import get_backend
from autotune.errors import InvalidConfigError
from autotune.spec.types import TrainerSpec
from tests.backends.verl_wheel import GOOD, interpreter, real_verl


@pytest.fixture(scope="module")
def configs() -> Path:
    return real_verl() / "verl" / "trainer" / "config"


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> str:
    return interpreter(tmp_path_factory.mktemp("environment"), real_verl())


@pytest.fixture
def trainer(python):
    def make(searched=(), **more):
        overrides = {name: value for name, value in {**GOOD, **more.pop("overrides", {})}.items() if value is not ...}
        fields = {"python": python, "config": "ppo_trainer", **more}
        return TrainerSpec(backend="verl", overrides=overrides, searched=tuple(searched), **fields)

    return make


@pytest.fixture
def describe(trainer):
    return lambda overrides=(), searched=(): get_backend("verl").describe(
        trainer(overrides=dict(overrides), searched=searched)
    )


@pytest.fixture
def refused(describe):
    def make(overrides=(), searched=()):
        with pytest.raises(InvalidConfigError) as caught:
            describe(overrides, searched)
        return caught.value.problems

    return make


@pytest.fixture
def prepared(tmp_path):
    """The arguments that verl gets for a configuration, and what was noted about them."""

    def make(config, **changes):
        get_backend("verl").prepare({**config, **changes}, tmp_path)
        own = json.loads((tmp_path / "config.yaml").read_text())["backend"]
        return own["command"][5:], own["notes"]

    return make
