import pytest

from autotune.errors import InvalidSpaceError, Problem
from autotune.spec.check import check_space
from autotune.spec.loader import load_space
from autotune.spec.places import placed

BASE = {
    "algorithm.clip_ratio": 0.2,
    "algorithm.clip_ratio_high": None,
    "algorithm.whiten": True,
    "algorithm.kl_ctrl.type": "fixed",
    "algorithm.kl_ctrl.kl_coef": 0.01,
    "algorithm.kl_ctrl.target_kl": 0.1,
    "trainer.optim.lr": 1e-6,
    "trainer.ppo_epochs": 1,
    "trainer.train_batch_size": 64,
    "trainer.mini_batch_size": 32,
}
METRICS = {"eval/reward": "", "reward/mean": "", "kl/actor_ref": "", "actor/entropy": ""}
HEAD = "name: mine\nobjective: {metric: eval/reward}\nbudget: {trials: 4}\n"
LR = "  lr: {float: [1e-6, 1e-5], log: true}\n"


def check(text, steps=40):
    return check_space(load_space(text, file="s.yaml"), BASE, METRICS, steps)


def problems(text, steps=40):
    with pytest.raises(InvalidSpaceError) as caught:
        check(text, steps)
    return caught.value.problems


def test_a_good_space_passes_unchanged():
    text = (
        HEAD
        + "search:\n"
        + LR
        + "  mini_batch_size: {choice: [16, 32]}\nrequire: [train_batch_size % mini_batch_size == 0]\n"
    )
    text += "prune: [{asha: {min_steps: 5}}, {kl_ceiling: {above: 0.1}}, {reward_collapse: {drop: 0.5}}, not_finite]\n"
    text += "start_from: [default, {lr: 2e-6}]\nconstraints: [kl/actor_ref <= 0.1]\n"
    space = load_space(text)
    assert check_space(space, BASE, METRICS, 40) == space


@pytest.mark.parametrize(
    ("body", "line", "column", "message", "fix"),
    [
        (
            "  algorithm.clip_rato: {float: [0.1, 0.3]}",
            5,
            3,
            "unknown parameter 'algorithm.clip_rato'",
            "'algorithm.clip_ratio'",
        ),
        ("  learning_rat: {float: [0.1, 0.3]}", 5, 3, "unknown parameter", "'learning_rate'"),
        ("  trainer.learning.lr: {float: [0.1, 0.3]}", 5, 3, "unknown parameter", "'trainer.optim.lr'"),
        ("  algorithm.kl_ctrl: {choice: [a, b]}", 5, 3, "group of keys", "algorithm.kl_ctrl.kl_coef"),
        ("  ppo_epochs: {float: [1, 4]}", 5, 15, "has 1 there, which is a whole number", "int: [...]"),
        ("  kl_type: {float: [1, 4]}", 5, 12, "which is a text, not a number", "choice"),
        ("  algorithm.whiten: {int: [0, 1]}", 5, 21, "true or false, not a number", "choice"),
        ("  algorithm.whiten: {choice: [0, 1]}", 5, 21, "which 0 does not fit", "true or false"),
        ("  mini_batch_size: {choice: [16, 32.5]}", 5, 20, "which 32.5 does not fit", "a whole number"),
        ("  kl_type: {choice: [fixed, 3]}", 5, 12, "which 3 does not fit", "a text"),
        (
            LR + "  target_kl: {float: [0.02, 0.2], when: \"kl_typ == 'adaptive'\"}",
            6,
            41,
            "reads 'kl_typ'",
            "'kl_type'",
        ),
        (LR + "  kl_coef: {float: [0.01, 0.2], when: \"kl_type == 'adaptive'\"}", 6, 39, "never holds", '"fixed"'),
        (LR + "require: [lrr > 0]", 6, 11, "the condition reads 'lrr'", "'lr'"),
        (LR + "require: [lr > 1]", 6, 11, "never holds in 4000 random configurations", "Loosen"),
        (LR + "require: [train_batch_size == 65]", 6, 11, "trainer.train_batch_size = 64", "Loosen"),
        (LR + "require: [kl_type < 3]", 6, 11, "no order", "Loosen"),
        (LR + "require: [ppo_epochs % 0 == 1]", 6, 11, "divides by zero", "Loosen"),
        (LR + "constraints: [kl/actor_reff <= 0.1]", 6, 15, "no metric 'kl/actor_reff'", "'kl/actor_ref'"),
        (LR + "prune: [{kl_ceiling: {above: 1, metric: kl/x}}]", 6, 41, "no metric 'kl/x'", "Known are"),
        (LR + "prune: [{asha: {min_steps: 40}}]", 6, 28, "looks from step 40 on, but a trial has 40 steps", "below 40"),
        (LR + "prune: [{kl_ceiling: {above: 1, min_steps: 99}}]", 6, 44, "from step 99 on", "budget.steps"),
        ("  lr: {float: [1e-5, 1e-4]}\nstart_from: [default]", 6, 14, "outside its domain: 1e-05 to 0.0001", "prior"),
        (LR + "require: [lr > 2e-6]\nstart_from: [default]", 7, 14, "breaks the condition 'lr > 2e-6'", "Change"),
        (LR + "require: [lr > 2e-6]\nstart_from: [{lr: 3e-6}, {lr: 1e-6}]", 7, 26, "breaks the condition", "Change"),
    ],
)
def test_what_does_not_fit_the_trainer_says_where_and_why(body, line, column, message, fix):
    problem = problems(HEAD + "search:\n" + body + "\n")[0]
    assert (problem.file, problem.line, problem.column) == ("s.yaml", line, column)
    assert message in problem.message
    assert fix in problem.hint


def test_an_unknown_objective_names_the_nearest_metric_once():
    text = (HEAD + "search:\n" + LR).replace("eval/reward", "eval/rewrd") + "prune: [{asha: {min_steps: 5}}]\n"
    found = problems(text)
    assert [(p.line, p.column, p.path) for p in found] == [(2, 21, "objective.metric")]
    assert "'eval/reward'" in found[0].hint


def test_a_default_metric_that_does_not_exist_is_found_at_its_pruner():
    text = HEAD + "search:\n" + LR + "prune: [{reward_collapse: {drop: 0.5}}]\n"
    with pytest.raises(InvalidSpaceError) as caught:
        check_space(load_space(text), BASE, {"eval/reward": ""}, 40)
    assert (caught.value.problems[0].line, caught.value.problems[0].column) == (6, 10)


def test_conditions_that_exclude_each_other_are_found():
    text = HEAD + "search:\n" + LR + "  ppo_epochs: {int: [1, 4]}\nrequire: [ppo_epochs > 2, ppo_epochs < 3]\n"
    (problem,) = problems(text)
    assert "all together in all 4 configurations" in problem.message
    assert (problem.line, problem.column, problem.path) == (7, 1, "require")


def test_a_condition_that_holds_in_one_of_many_combinations_is_found_to_hold():
    text = HEAD + (
        "search:\n  ppo_epochs: {int: [1, 100]}\n  mini_batch_size: {int: [1, 100]}\n"
        "require: [ppo_epochs == 37 and mini_batch_size == 53]\n"
    )
    check(text)


def test_conditions_see_the_own_value_of_a_parameter_that_is_not_active():
    text = HEAD + (
        "search:\n  kl_type: {choice: [fixed]}\n"
        "  target_kl: {float: [0.5, 0.6], when: \"kl_type == 'adaptive' or lr < 2e-6\"}\n"
        + LR
        + "require: [target_kl < 0.2]\n"
    )
    check(text)


def test_whole_numbers_become_fractions_where_the_trainer_has_fractions():
    space = check(HEAD + "search:\n  clip_ratio: {choice: [0, 0.2, 1], prior: 1}\n")
    domain = space.search["algorithm.clip_ratio"].domain
    assert [type(option) for option in domain.options] == [float, float, float]
    assert isinstance(space.search["algorithm.clip_ratio"].prior, float)


def test_a_null_in_the_configuration_takes_any_type_and_null_may_be_chosen():
    check(HEAD + "search:\n  clip_ratio_high: {choice: [null, 0.3]}\n  kl_type: {choice: [fixed, null]}\n")


def test_all_problems_are_reported_at_once():
    text = HEAD.replace("eval/reward", "eval/rewrd") + "search:\n  clip_rato: {float: [0.1, 0.3]}\nrequire: [x > 1]\n"
    assert [p.line for p in problems(text)] == [2, 5, 6]


def test_the_verdict_is_the_same_each_time():
    text = HEAD + "search:\n" + LR + "require: [lr > 1]\n"
    assert problems(text) == problems(text)


def test_problems_of_the_backend_get_their_place():
    space = load_space("name: mine\ntrainer:\n  overrides: {gamma: x}\n" + HEAD.split("\n", 1)[1] + "search:\n" + LR)
    found = placed(
        space,
        [
            Problem(message="a", path="trainer.overrides.algorithm.gamma"),
            Problem(message="b", path="trainer.overrides.trainer.seed"),
            Problem(message="c", path="trainer.config"),
        ],
    )
    assert [(p.line, p.column) for p in found] == [(3, 15), (3, 3), (2, 1)]
