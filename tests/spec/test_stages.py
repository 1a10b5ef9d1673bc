"""The `stages` of a space file: what is read, and every mistake at its place."""

import json

import pytest

from autotune.errors import InvalidSpaceError
from autotune.spec.criteria import Reading, What, Who, parse_criterion
from autotune.spec.expression_nodes import ExpressionError
from autotune.spec.loader import load_space
from autotune.spec.types import Carry, OnFail

HEAD = """\
name: mine
trainer: {overrides: {data: digits, model: tiny}}
sampler: {name: random, seed: 3}
stages:
"""
ALIVE = """\
  - name: alive
    search: {micro_batch_size_per_gpu: {choice: [4, 8]}}
    objective: {metric: perf/peak_memory_gb, direction: minimize}
    budget: {trials: 2, steps: 4}
    start_from: [default]
"""
EFFECT = """\
  - name: effect
    search: {lr: {float: [1e-5, 1e-3], log: true}}
    objective: {metric: eval/reward}
    budget: {trials: 3, steps: 8}
    start_from: [default]
"""


def problems(text):
    with pytest.raises(InvalidSpaceError) as caught:
        load_space(text, file="bad.yaml")
    return caught.value.problems


def test_each_stage_is_a_space_of_its_own_and_the_last_one_gives_the_answer():
    space = load_space(HEAD + ALIVE + EFFECT)
    alive, effect = space.stages
    assert (alive.name, effect.name) == ("alive", "effect")
    assert list(alive.space.search) == ["trainer.ppo_micro_batch_size_per_gpu"]
    assert alive.space.objective.direction == "minimize"
    assert (alive.space.budget.steps, effect.space.budget.steps) == (4, 8)
    assert list(space.search) == list(effect.space.search) == ["trainer.optim.lr"]
    assert alive.space.trainer.overrides == effect.space.trainer.overrides == {"data": "digits", "model": "tiny"}
    assert alive.space.sampler.seed == effect.space.sampler.seed == 3
    assert alive.space.stages == ()


def test_a_stage_may_have_its_own_sampler_resources_overrides_and_answer_to_failure():
    own = """\
    sampler: {name: tpe, seed: 9}
    resources: {cpus: 2}
    trainer: {config: grpo, overrides: {kl_coef: 0.5}}
    on_fail: continue
    carry: start
"""
    alive, effect = load_space(HEAD + ALIVE + own + EFFECT).stages
    assert (alive.space.sampler.name, alive.space.sampler.seed, alive.space.resources.cpus) == ("tpe", 9, 2)
    assert alive.space.trainer.config == "grpo"
    assert alive.space.trainer.overrides["algorithm.kl_ctrl.kl_coef"] == 0.5
    assert alive.fixed == ("algorithm.kl_ctrl.kl_coef",)
    assert (alive.on_fail, alive.carry.how) == (OnFail.CONTINUE, Carry.START)
    assert (effect.space.sampler.seed, effect.on_fail, effect.carry.how) == (3, OnFail.FAIL, Carry.FIX)
    assert "algorithm.kl_ctrl.kl_coef" not in effect.space.trainer.overrides


def test_a_stage_without_a_search_searches_what_the_one_before_did():
    target = "  - {name: target, objective: {metric: eval/reward}, budget: {trials: 3}}\n"
    carry = "    carry: {as: start, top: 3, scale: {lr: 0.5}, drop: [lr]}\n"
    effect, last = load_space(HEAD + EFFECT + carry + target).stages
    assert last.space.search == effect.space.search
    assert (effect.carry.top, effect.carry.scale) == (3, {"trainer.optim.lr": 0.5})
    assert effect.carry.drop == ("trainer.optim.lr",)


def test_a_stage_may_search_what_the_job_fixes():
    text = HEAD.replace("model: tiny}", "model: tiny, lr: 1e-4}") + EFFECT
    assert load_space(text).stages[0].space.trainer.overrides["trainer.optim.lr"] == 1e-4


def test_stages_take_the_place_of_an_inherited_search_and_the_other_way_round(tmp_path):
    (tmp_path / "plain.yaml").write_text(
        "name: plain\nsearch: {lr: {float: [1e-5, 1e-3]}}\nobjective: {metric: eval/reward}\nbudget: {trials: 2}\n"
    )
    (tmp_path / "staged.yaml").write_text(HEAD + ALIVE)
    staged = load_space("extends: ./plain.yaml\n" + HEAD + ALIVE, file="a.yaml", directory=tmp_path)
    assert [stage.name for stage in staged.stages] == ["alive"]
    text = "extends: ./staged.yaml\nsearch: {lr: {float: [1e-5, 1e-3]}}\nobjective: {metric: eval/reward}\n"
    plain = load_space(text + "budget: {trials: 2}\n", file="b.yaml", directory=tmp_path)
    assert (plain.stages, list(plain.search)) == ((), ["trainer.optim.lr"])


@pytest.mark.parametrize(
    ("line", "column", "path", "message", "fix"),
    [
        ("nam: x", 5, "stages[1].nam", "unknown key 'nam'", "'name'"),
        ("pass: 3", 11, "stages[1].pass", "must be a condition over metrics, got 3", "perf/tokens_per_s"),
        ("pass: ['eval/reward >']", 12, "stages[1].pass[0]", "'eval/reward >' cannot be read", ""),
        ("pass: ['default.eval/reward > 1']", 12, "stages[1].pass[0]", "nothing of the stage's winner", ""),
        ("pass: ['eval/reward > kl/coef + default']", 12, "stages[1].pass[0]", "but 2 are", "default.perf"),
        ("carry: fixed", 12, "stages[1].carry", 'unknown way to carry "fixed"', "'fix'"),
        ("carry: {top: 2}", 18, "stages[1].carry.top", "only one configuration can be fixed", "as: start"),
        ("carry: {as: start, scale: {lrr: 2}}", 37, "stages[1].carry.scale.lrr", "not searched", "'trainer.optim.lr'"),
        ("carry: {scale: {lr: 0}}", 25, "stages[1].carry.scale.trainer.optim.lr", "above 0; got 0", ""),
        ("carry: {drop: [clip_ratio]}", 20, "stages[1].carry.drop[0]", "not searched in this stage", ""),
        ("on_fail: stop", 14, "stages[1].on_fail", 'unknown answer "stop"', "fail"),
        ("trainer: {backend: verl}", 15, "stages[1].trainer.backend", "unknown key 'backend'", ""),
        ("trainer: {overrides: {lr: 1}}", 27, "stages[1].trainer.overrides.trainer.optim.lr", "searched too", "Remove"),
        ("require: [lr >]", 15, "stages[1].require[0]", "cannot be read", ""),
        ("prune: [ahsa]", 13, "stages[1].prune[0]", "unknown pruner 'ahsa'", "'asha'"),
    ],
)
def test_a_stage_that_cannot_be_used_says_where_and_why(line, column, path, message, fix):
    (problem,) = problems(HEAD + ALIVE + EFFECT + f"    {line}\n")
    assert (problem.file, problem.line, problem.column, problem.path) == ("bad.yaml", 15, column, path)
    assert message in problem.message
    assert fix in problem.hint


def test_all_mistakes_of_all_stages_are_told_at_once():
    text = HEAD + ALIVE.replace("    start_from: [default]\n", "    pass: eval/reward >= previous + default\n")
    text += EFFECT.replace("name: effect", "name: alive") + "budget: {trials: 3}\nresources: {cpus: 0}\n"
    found = {problem.path: problem.message for problem in problems(text)}
    assert "stands beside `stages`" in found["budget"]
    assert "a stage 'alive' already" in found["stages[1].name"]
    assert "above 0; got 0" in found["resources.cpus"]
    told = [problem.message for problem in problems(text) if problem.path == "stages[0].pass"]
    assert any("never runs" in message for message in told)
    assert any("first one" in message for message in told)


def test_what_the_stages_share_is_complained_about_once():
    text = (HEAD + ALIVE + EFFECT).replace("name: mine", "name: Not A Name")
    assert len(problems(text)) == 1


@pytest.mark.parametrize(
    ("stages", "message"), [("[]", "1 to 10 stages"), ("{}", "must be a list"), ("[alive]", "must be a mapping")]
)
def test_stages_that_are_none_say_so_and_nothing_else(stages, message):
    (problem,) = problems(f"name: mine\nstages: {stages}\n")
    assert message in problem.message


def test_more_carried_configurations_than_trials_is_a_mistake():
    target = "  - {name: target, objective: {metric: eval/reward}, budget: {trials: 2}}\n"
    (problem,) = problems(HEAD + EFFECT + "    carry: {as: start, top: 3}\n" + target)
    assert "3 configurations from stage 'effect'" in problem.message


def test_a_criterion_knows_whose_and_which_number_it_reads():
    criterion = parse_criterion("std.reward/mean < 0.05 and 2 * eval/reward >= previous.max.eval/reward / 2")
    assert criterion.readings == {
        "std.reward/mean": Reading(who=Who.WINNER, what=What.STD, metric="reward/mean"),
        "eval/reward": Reading(who=Who.WINNER, what=What.LAST, metric="eval/reward"),
        "previous.max.eval/reward": Reading(who=Who.PREVIOUS, what=What.MAX, metric="eval/reward"),
    }


def test_default_alone_is_the_same_reading_of_the_default_configuration():
    criterion = parse_criterion("mean.perf/tokens_per_s >= 1.3 * default")
    assert criterion.readings["default"] == Reading(who=Who.DEFAULT, what=What.MEAN, metric="perf/tokens_per_s")
    assert criterion.expression.evaluate({"mean.perf/tokens_per_s": 14.0, "default": 10.0}) is True


def test_a_metric_of_a_program_needs_no_slash():
    assert parse_criterion("loss <= 0.5").readings["loss"].metric == "loss"


def test_a_criterion_that_cannot_be_read_shows_the_metric_as_it_was_written():
    with pytest.raises(ExpressionError, match="eval/reward") as caught:
        parse_criterion("eval/reward(3) > 1")
    assert "\u01c0" not in caught.value.message
    assert caught.value.problems[0].column == 1


def test_a_document_reads_back_to_the_same_stages():
    space = load_space(HEAD + ALIVE + EFFECT)
    again = load_space(json.dumps(dict(space.document)))
    assert [(s.name, s.space.search, s.space.budget) for s in again.stages] == [
        (s.name, s.space.search, s.space.budget) for s in space.stages
    ]
