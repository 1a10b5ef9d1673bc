"""What an algorithm's options cannot do together is refused before the first step, with its reason and a way out."""

from __future__ import annotations

import pytest

from trainer.config import ConfigError, build, compose

GROUPS = {"algorithm": "grpo", "rollout.n": 4}


@pytest.mark.parametrize(
    ("overrides", "path", "words"),
    [
        ({**GROUPS, "algorithm.truncation": "bootstrap"}, "algorithm.truncation", "has no critic to value"),
        ({**GROUPS, "trainer.critic_warmup": 2}, "trainer.critic_warmup", "adv_estimator = grpo has no critic"),
        ({"trainer.critic_warmup": 40}, "trainer.critic_warmup", "must be below trainer.total_steps = 40"),
        ({"algorithm.overlong_buffer": 2}, "algorithm.overlong_buffer", "takes nothing off"),
        (
            {"algorithm.overlong_buffer": 11, "algorithm.truncation_penalty": 1},
            "algorithm.overlong_buffer",
            "at most data.max_response_length = 10",
        ),
        (
            {"algorithm.clip_ratio_c": 1.2, "algorithm.clip_ratio_high": 0.28},
            "algorithm.clip_ratio_c",
            "must be above 1 + the upper clip = 1.28",
        ),
        ({"algorithm.clip_ratio_c": 1.0}, "algorithm.clip_ratio_c", "must be > 1"),
        ({"algorithm.kl_loss_type": "k1"}, "algorithm.kl_loss_type", "zero on average"),
        ({"algorithm.kl_loss_type": "low_var_kl"}, "algorithm.kl_loss_type", "must be one of k1, k2, k3"),
        ({"algorithm.loss_agg_mode": "token-meen"}, "algorithm.loss_agg_mode", "did you mean 'token-mean'?"),
        ({"algorithm.adv_estimator": "rlo"}, "algorithm.adv_estimator", "did you mean 'rloo'?"),
        (
            {"trainer.use_dynamic_bsz": True, "trainer.ppo_max_token_len_per_gpu": 18},
            "trainer.ppo_max_token_len_per_gpu",
            "data.max_prompt_length + data.max_response_length = 19",
        ),
    ],
)
def test_what_cannot_go_together_is_refused(overrides: dict[str, object], path: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(compose(overrides=overrides))
    assert words in {problem.path: str(problem) for problem in caught.value.problems}[path]


def test_a_budget_is_not_judged_where_none_is_used() -> None:
    build(compose(overrides={"trainer.ppo_max_token_len_per_gpu": 1}))


def test_an_adaptive_controller_does_without_a_horizon() -> None:
    build(compose(overrides={"algorithm.kl_ctrl.type": "adaptive", "algorithm.kl_ctrl.horizon": None}))


@pytest.mark.parametrize("name", ["grpo", "rloo", "reinforce_pp"])
def test_the_algorithms_without_a_critic_say_so(name: str) -> None:
    assert not build(compose(overrides={"algorithm": name})).algorithm.needs_critic
    assert build(compose(overrides={"algorithm": "ppo"})).algorithm.needs_critic
