import copy

import pytest
import yaml

MINIMAL = {
    "name": "mine",
    "search": {"trainer.optim.lr": {"float": [1e-6, 1e-5], "log": True}},
    "objective": {"metric": "eval/reward"},
    "budget": {"trials": 4},
}


@pytest.fixture
def text():
    """The text of a small valid space with some sections changed."""

    def make(**changes):
        document = {**copy.deepcopy(MINIMAL), **changes}
        return yaml.safe_dump({key: value for key, value in document.items() if value is not None}, sort_keys=False)

    return make
