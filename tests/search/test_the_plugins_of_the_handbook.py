"""The code of the page about plugins works as it stands there."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import optuna
import pytest

from autotune.search.pruners import Sight
from autotune.search.types import Point, Trial
from autotune.spec.loader import load_space
from autotune.spec.types import Objective
from autotune.states import TrialState

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "objectives-and-plugins.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def module(tmp_path):
    """The module that a block of Python on the page makes."""

    def load(place):
        path = tmp_path / f"page_{place}.py"
        path.write_text(blocks("python")[place], encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        made = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = made
        spec.loader.exec_module(made)
        return made

    yield load
    for place in range(len(blocks("python"))):
        sys.modules.pop(f"page_{place}", None)


def test_the_space_of_the_page_is_a_space():
    head = "name: mine\nsearch: {lr: {float: [1e-6, 1e-5]}}\nbudget: {trials: 9}\n"
    space = load_space(head + blocks("yaml")[0])
    assert [one.metric for one in space.objective.each] == ["eval/reward", "response/length_mean"]


def test_the_pruner_of_the_page_stops_what_it_says(module):
    rule = module(0).ClipFraction(above=0.5)

    def judge(value):
        return rule.judge(
            Sight(
                trial=Trial(number=0, state=TrialState.RUNNING, source="sampler", params={}, config={}),
                step=3,
                curve=[Point(step=3, time=0.0, metrics={"actor/clip_fraction": value})],
                peers={},
                objective=Objective(metric="eval/reward"),
                total_steps=9,
            )
        )

    assert judge(0.4) is None
    assert judge(None) is None
    assert judge(0.7).text == "actor/clip_fraction was 0.7 at step 3, above 0.5"


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_the_sampler_of_the_page_is_one_of_optunas(module):
    @dataclass
    class Asked:
        seed: int = 3

    assert isinstance(module(1).brute_force(Asked()), optuna.samplers.BaseSampler)
