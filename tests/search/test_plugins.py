"""Samplers and pruners that other distributions bring, here a small one written into a folder on the path."""

from __future__ import annotations

import sys
import textwrap

import pytest

from autotune.errors import InvalidSpaceError
from autotune.search.pruners import Sight, build_pruners
from autotune.search.types import Point, Trial
from autotune.spec.check import check_space
from autotune.spec.json_schema import space_schema
from autotune.spec.loader import load_space
from autotune.spec.types import Budget, Objective, PrunerSpec, SamplerSpec
from autotune.states import TrialState

ENTRIES = """
[autotune.samplers]
corner = extra_rules:corner
answers-nothing = extra_rules:answers_nothing
raises = extra_rules:raises
is-gone = extra_rules:gone
[autotune.pruners]
odd_step = extra_rules:OddStep
misnamed = extra_rules:Misnamed
textual = extra_rules:Textual
asha = extra_rules:OddStep
"""
SOURCE = """
from dataclasses import dataclass
import optuna
from autotune.search.types import Reason

class Corner(optuna.samplers.RandomSampler):
    def sample_independent(self, study, trial, name, distribution):
        return getattr(distribution, "low", None) or distribution.choices[0]

def corner(request):
    return Corner(seed=request.seed)

def answers_nothing(request):
    return None

def raises(request):
    raise RuntimeError("no licence")

@dataclass(frozen=True, kw_only=True)
class OddStep:
    '''Stops a trial at an odd step whose metric is high.

    More words.
    '''

    name = "odd_step"
    above: float
    least: int = 3
    metric: str | None = None

    def judge(self, sight):
        value = sight.curve[-1].metrics.get(self.metric)
        if sight.step % 2 and sight.step >= self.least and value > self.above:
            return Reason(pruner=self.name, text="odd", numbers={"step": sight.step})
        return None

@dataclass(frozen=True, kw_only=True)
class Misnamed(OddStep):
    above: float = 1.0

@dataclass(kw_only=True)
class Textual:
    name = "textual"
    words: str = "x"

    def judge(self, sight):
        return None
"""
HEAD = "name: mine\nsearch: {lr: {float: [1e-5, 1e-3]}}\nbudget: {trials: 4}\nobjective: {metric: eval/reward}\n"


@pytest.fixture(autouse=True)
def extra(tmp_path, monkeypatch):
    info = tmp_path / "extra_rules-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: extra-rules\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "extra_rules.py").write_text(textwrap.dedent(SOURCE))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("extra_rules", None)


def said(caught):
    return " ".join(str(problem) for problem in caught.value.problems)


def sight(step, value):
    return Sight(
        trial=Trial(number=0, state=TrialState.RUNNING, source="sampler", params={}, config={}),
        step=step,
        curve=[Point(step=step, time=0.0, metrics={"eval/reward": value})],
        peers={},
        objective=Objective(metric="eval/reward"),
        total_steps=9,
    )


def test_a_pruner_of_another_distribution_works_by_its_name_with_its_own_options():
    space = load_space(HEAD + "prune: [{odd_step: {above: 0.5}}, not_finite]\n")
    spec = space.prune[0]
    assert (spec.name, dict(spec.options)) == ("odd_step", {"above": 0.5, "least": 3, "metric": "eval/reward"})
    rule = build_pruners(space.prune)[0]
    assert rule.judge(sight(5, 0.9)).text == "odd"
    assert rule.judge(sight(4, 0.9)) is None


def test_the_options_of_a_plugin_are_checked_like_others():
    with pytest.raises(InvalidSpaceError) as caught:
        load_space(HEAD + "prune: [{odd_step: {leest: 4}}]\n")
    text = said(caught)
    assert "'above' is missing" in text
    assert "unknown key 'leest'" in text
    space = load_space(HEAD + "prune: [{odd_step: {above: 1, metric: eval/rewart}}]\n")
    with pytest.raises(InvalidSpaceError) as caught:
        check_space(space, {"trainer.optim.lr": 1e-4}, {"eval/reward": ""}, steps=20)
    assert "no metric 'eval/rewart'" in said(caught)


def test_a_name_of_the_projects_own_goes_before_a_plugins():
    rule = build_pruners([PrunerSpec(name="asha", options={"min_steps": 3})])[0]
    assert type(rule).__module__.startswith("autotune.")


@pytest.mark.parametrize(
    ("name", "why"),
    [("misnamed", "its `name` is 'odd_step', not 'misnamed'"), ("textual", "'words' is neither a whole number")],
)
def test_a_plugin_that_is_not_made_like_a_pruner_is_named_with_its_distribution(name, why):
    with pytest.raises(InvalidSpaceError) as caught:
        load_space(HEAD + f"prune: [{name}]\n")
    assert "from extra-rules 1.2" in said(caught)
    assert why in said(caught)


def test_a_sampler_of_another_distribution_proposes(make_coordinator, play):
    load_space(HEAD + "sampler: {name: corner}\n")
    coordinator = make_coordinator(sampler=SamplerSpec(name="corner"), budget=Budget(trials=2))
    play(coordinator, lambda config, step: {"eval/reward": 1.0}).play()
    assert coordinator.trials[1].params == {"lr": 1e-4, "epochs": 1, "kl.type": "fixed"}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("answers-nothing", "answered NoneType"),
        ("raises", "raised RuntimeError: no licence"),
        ("is-gone", "importing extra_rules:gone raised AttributeError"),
    ],
)
def test_what_is_wrong_with_a_sampler_is_said_with_its_name_and_distribution(make_coordinator, name, why):
    coordinator = make_coordinator(sampler=SamplerSpec(name=name), start_from=())
    with pytest.raises(InvalidSpaceError) as caught:
        coordinator.next_trial(0.0)
    assert name in str(caught.value)
    assert "from extra-rules 1.2" in str(caught.value)
    assert why in str(caught.value)


def test_two_distributions_with_the_same_name_are_refused(tmp_path, make_coordinator, monkeypatch):
    other = tmp_path / "second"
    info = other / "second-2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: second\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[autotune.samplers]\ncorner = extra_rules:corner\n")
    monkeypatch.syspath_prepend(str(other))
    coordinator = make_coordinator(sampler=SamplerSpec(name="corner"), start_from=())
    with pytest.raises(InvalidSpaceError, match="extra-rules and second declare the same name"):
        coordinator.next_trial(0.0)


def test_an_unknown_name_lists_the_plugins_too():
    for text, name in (("prune: [od_step]\n", "odd_step"), ("sampler: {name: cornr}\n", "corner")):
        with pytest.raises(InvalidSpaceError) as caught:
            load_space(HEAD + text)
        assert name in said(caught)


def test_the_schema_knows_the_names_without_importing_them():
    sys.modules.pop("extra_rules", None)
    text = str(space_schema())
    assert "'odd_step'" in text
    assert "'corner'" in text
    assert "extra_rules" not in sys.modules
