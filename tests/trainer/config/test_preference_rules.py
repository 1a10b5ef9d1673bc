"""What learns from preferences and what learns from sampled responses are not mixed up: refused, with the way out."""

from __future__ import annotations

import pytest

from trainer.config import ConfigError, build, compose, metrics_of

DPO = {"algorithm": "dpo", "data": "digits_preferences"}
KTO = {"algorithm": "kto", "data": "digits_kto"}


def problems(overrides: dict[str, object]) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        build(compose(overrides=overrides))
    return {problem.path: str(problem) for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("overrides", "path", "words"),
    [
        ({"algorithm": "dpo"}, "data.kind", "choose the option data=digits_preferences"),
        ({"algorithm": "kto"}, "data.kind", "learns from labels or pairs"),
        ({**DPO, "data": "digits_kto"}, "data.kind", "algorithm.name = dpo learns from pairs"),
        ({"data": "digits_preferences"}, "data.kind", "learns from prompts (choose the option data=digits,"),
        ({"data": "digits_kto"}, "data.kind", "or algorithm=kto"),
        ({"algorithm": "grpo", "data": "digits_preferences"}, "data.kind", "algorithm.name = ppo learns from prompts"),
        ({"algorithm.preference.beta": 0.1}, "algorithm.preference.beta", "algorithm=dpo or algorithm=kto"),
        (
            {**DPO, "algorithm.preference.desirable_weight": 2.0},
            "algorithm.preference.desirable_weight",
            "choose the option algorithm=kto, or set it to null",
        ),
        (
            {**KTO, "algorithm.preference.label_smoothing": 0.1},
            "algorithm.preference.label_smoothing",
            "algorithm.name = kto does not read it",
        ),
        ({**DPO, "algorithm.preference.beta": None}, "algorithm.preference.beta", "algorithm.name = dpo needs it"),
        ({**DPO, "algorithm.preference.beta": 0.0}, "algorithm.preference.beta", "must be > 0"),
        (
            {**DPO, "algorithm.preference.loss_type": "sigmoidal"},
            "algorithm.preference.loss_type",
            "did you mean 'sigmoid'?",
        ),
        (
            {**DPO, "algorithm.preference.label_smoothing": 0.5},
            "algorithm.preference.label_smoothing",
            "there is nothing to learn",
        ),
        (
            {**DPO, "algorithm.preference.loss_type": "ipo", "algorithm.preference.label_smoothing": 0.1},
            "algorithm.preference.label_smoothing",
            "loss_type = ipo does not read it",
        ),
        ({**DPO, "rollout.n": 4}, "rollout.n", "learns from given answers and does not read it (set it to 1)"),
        ({**DPO, "rollout.temperature": 0.7}, "rollout.temperature", "set it to 1.0"),
        ({**KTO, "trainer.critic_warmup": 1}, "trainer.critic_warmup", "set it to 0"),
        ({**KTO, "algorithm.truncation": "bootstrap"}, "algorithm.truncation", "set it to terminal"),
        ({**DPO, "algorithm.entropy_coeff": 0.1}, "algorithm.entropy_coeff", "does not read it"),
        ({**DPO, "algorithm.clip_ratio_high": 0.3}, "algorithm.clip_ratio_high", "set it to null"),
        (
            {**DPO, "algorithm.kl_ctrl.kl_coef": 0.1},
            "algorithm.kl_ctrl.kl_coef",
            "the pull to the reference is algorithm.preference.beta",
        ),
        ({**DPO, "data.overlong": None}, "data.overlong", "use drop or truncate"),
        ({"data.overlong": "drop"}, "data.overlong", "has no answers to be too long"),
        (
            {**DPO, "trainer.ppo_micro_batch_size_per_gpu": 1},
            "trainer.ppo_micro_batch_size_per_gpu",
            "the two answers of a pair",
        ),
        (
            {**DPO, "trainer.use_dynamic_bsz": True, "trainer.ppo_max_token_len_per_gpu": 37},
            "trainer.ppo_max_token_len_per_gpu",
            "use at least 38 tokens",
        ),
        (
            {**KTO, "trainer.train_batch_size": 1, "trainer.mini_batch_size": 1},
            "trainer.train_batch_size",
            "the answers to other prompts",
        ),
        ({"reward": "none"}, "reward", "must be set"),
    ],
)
def test_what_cannot_go_together_is_refused(overrides: dict[str, object], path: str, words: str) -> None:
    assert words in problems(overrides)[path]


def test_naming_the_algorithm_without_its_option_says_what_is_missing() -> None:
    found = problems({"algorithm.name": "dpo", "data": "digits_preferences"})
    assert {path for path in found if path.startswith("algorithm.preference.")} == {
        f"algorithm.preference.{key}" for key in ("beta", "loss_type", "label_smoothing", "length_normalization")
    }
    assert "choose the option algorithm=dpo" in found["algorithm.preference.beta"]


@pytest.mark.parametrize(
    "overrides",
    [
        DPO,
        KTO,
        {**KTO, "data": "digits_preferences"},
        {**DPO, "data": "arithmetic", "data.kind": "pairs", "data.overlong": "truncate"},
        {**DPO, "reward": "none"},
        {**KTO, "trainer.ppo_micro_batch_size_per_gpu": 1},
        {**DPO, "trainer.use_dynamic_bsz": True, "trainer.ppo_max_token_len_per_gpu": 38},
    ],
)
def test_what_goes_together_is_accepted(overrides: dict[str, object]) -> None:
    config = build(compose(overrides=overrides))
    assert config.algorithm.learns_from_preferences
    assert not config.algorithm.needs_critic


def test_a_search_may_use_the_metrics_that_will_come_and_no_others() -> None:
    dpo, kto = (set(metrics_of(build(compose(overrides=choice)))) for choice in (DPO, KTO))
    ppo = set(metrics_of(build(compose())))
    shared = {"eval/reward", "kl/actor_ref", "actor/grad_norm", "actor/entropy", "perf/tokens_per_s"}
    assert shared <= dpo & kto & ppo
    assert kto - dpo == {"kl/baseline"}
    assert "eval/preference_accuracy" in dpo - ppo
    assert not [name for name in dpo if name.startswith("critic/") or name in ("reward/mean", "kl/coef")]
    without = set(metrics_of(build(compose(overrides={**DPO, "reward": "none"}))))
    assert dpo - without == {"eval/reward", "eval/accuracy", "eval/length_mean", "eval/truncated_fraction"}
