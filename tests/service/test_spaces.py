"""One look at a space file tells everything that is wrong with it, in its form and for its trainer."""

import pytest

from autotune.errors import InvalidSpaceError
from autotune.service.spaces import resolve_space

GOOD = """
name: mine
trainer: {overrides: {data: digits, model: tiny}}
search:
  lr: {float: [1e-6, 1e-4], log: true}
objective: {metric: eval/reward}
constraints: ["kl/actor_ref <= 0.2"]
prune: [{kl_ceiling: {above: 0.4}}]
budget: {trials: 4, steps: 10}
"""
STAGES = """
name: mine
trainer: {overrides: {data: digits, model: tiny}}
stages:
  - name: one
    search: {lrr: {float: [1e-6, 1e-4]}}
    objective: {metric: eval/reward}
    budget: {trials: 0}
  - name: two
    search: {lr: {float: [1e-6, 1e-4]}}
    objective: {metric: eval/rewrd}
    budget: {trials: 2}
"""


def wrong(text):
    with pytest.raises(InvalidSpaceError) as caught:
        resolve_space(text, "space.yaml")
    return {problem.path: (problem.line, problem.message) for problem in caught.value.problems}


def changed(*changes):
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def test_what_the_trainer_does_not_know_is_told_together_with_mistakes_of_form():
    found = wrong(
        changed(
            ("lr: {", "lrr: {float: [1e-6, 1e-4]}\n  clip_ratio: {"),
            ("[1e-6, 1e-4], log", "[0.3, 0.1], log"),
            ("eval/reward", "eval/rewrd"),
            ("actor_ref", "actor_reff"),
            ("kl_ceiling", "kl_ceilling"),
        )
    )
    assert {path: line for path, (line, _) in found.items()} == {
        "search.lrr": 5,
        "search.algorithm.clip_ratio.float": 6,
        "objective.metric": 7,
        "constraints[0]": 8,
        "prune[0]": 9,
    }
    assert found["search.lrr"][1] == "unknown parameter 'lrr'."
    assert found["objective.metric"][1] == "the trainer has no metric 'eval/rewrd'."


def test_fixed_values_that_the_trainer_refuses_are_told_too():
    found = wrong(changed(("model: tiny", "model: tiny, rollout.n: 0"), ("trials: 4", "trials: 0")))
    assert {path: line for path, (line, _) in found.items()} == {"trainer.overrides.rollout.n": 3, "budget.trials": 9}


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("objective: {metric: eval/reward}\n", "", "objective"),
        ("{metric: eval/reward}", "{metrik: eval/reward}", "objective.metrik"),
        ("lr: {float: [1e-6, 1e-4], log: true}", "lrr: {flaot: [1e-6, 1e-4]}", "search.lrr.flaot"),
        ('"kl/actor_ref <= 0.2"', '"kl/actor_ref ~ 0.2"', "constraints[0]"),
        ("trainer: {overrides", "trainer: {backend: verll, overrides", "trainer.backend"),
    ],
)
def test_what_could_not_be_read_is_not_called_unknown_as_well(old, new, path):
    found = wrong(changed((old, new)))
    assert len(found) <= 2
    assert path in found
    assert not any("the trainer has no metric" in message for _, message in found.values())


def test_every_stage_is_looked_at_although_one_has_a_mistake_of_form():
    found = wrong(STAGES)
    assert {path: line for path, (line, _) in found.items()} == {
        "stages[0].search.lrr": 6,
        "stages[0].budget.trials": 8,
        "stages[1].objective.metric": 11,
    }
