"""A space that searches a key which nothing reads is refused at its line, before anything runs."""

import pytest

from autotune.errors import InvalidSpaceError
from autotune.service.spaces import resolve_space

HEAD = """
name: dead
trainer: {backend: native, config: CONFIG}
objective: {metric: eval/reward}
budget: {trials: 4}
search:
"""


def resolve(config: str, search: str) -> None:
    resolve_space(HEAD.replace("CONFIG", config) + search, "dead.yaml")


@pytest.mark.parametrize(
    ("config", "path", "decisive"),
    [
        ("dpo", "algorithm.clip_ratio: {float: [0.1, 0.3]}", 'algorithm.name is "dpo"'),
        ("dpo", "rollout.n: {int: [1, 4]}", 'algorithm.name is "dpo"'),
        ("kto", "label_smoothing: {float: [0.0, 0.2]}", 'algorithm.name is "kto"'),
        ("config", "beta: {float: [0.1, 0.3]}", 'algorithm.name is "ppo"'),
        ("grpo", "vf_coef: {float: [0.1, 0.3]}", 'algorithm.adv_estimator is "grpo"'),
    ],
)
def test_a_parameter_that_nothing_reads_is_refused_at_its_line(config: str, path: str, decisive: str) -> None:
    with pytest.raises(InvalidSpaceError) as caught:
        resolve(config, f"  trainer.optim.lr: {{float: [1e-5, 1e-3]}}\n  {path}\n")
    (problem,) = caught.value.problems
    assert problem.line == 8
    assert decisive in problem.message
    assert "nothing reads" in problem.message


def test_it_is_not_judged_where_the_deciding_key_is_searched_too() -> None:
    resolve("grpo", "  algorithm.adv_estimator: {choice: [grpo, rloo, gae]}\n  vf_coef: {float: [0.1, 0.3]}\n")


def test_what_the_method_reads_is_accepted() -> None:
    resolve("dpo", "  beta: {float: [0.1, 0.3]}\n  lr: {float: [1e-5, 1e-3]}\n")
