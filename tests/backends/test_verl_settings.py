"""Settings of verl that do nothing or cannot work: repaired, or refused where they were written."""

import pytest

from autotune.backends import get_backend
from autotune.backends.verl.names import ACTOR, MODEL, ROLLOUT

REPAIRED = [
    ({f"{ACTOR}.clip_ratio": 0.1}, f"{ACTOR}.clip_ratio_low=0.1", "clip_ratio has no effect"),
    ({f"{ACTOR}.clip_ratio": 0.1}, f"{ACTOR}.clip_ratio_high=0.1", "clip_ratio has no effect"),
    ({f"{ACTOR}.grad_clip": 0.3}, f"{ACTOR}.optim.clip_grad=0.3", "grad_clip has no effect"),
    ({"critic.grad_clip": 0.3}, "critic.optim.clip_grad=0.3", "critic.grad_clip has no effect"),
    (
        {"custom_reward_function.path": "/r.py"},
        "reward.custom_reward_function.path=/r.py",
        "custom_reward_function.path has no effect",
    ),
    ({"reward_model.reward_manager": "dapo"}, "reward.reward_manager.name=dapo", "reward_manager has no effect"),
    (
        {"reward_model.rollout.gpu_memory_utilization": 0.3},
        "reward.reward_model.rollout.gpu_memory_utilization=0.3",
        "has no effect",
    ),
    ({"algorithm.kl_ctrl.kl_coef": 0.01}, "algorithm.use_kl_in_reward=true", "kl_coef has no effect without"),
    ({"algorithm.kl_ctrl.type": "adaptive"}, "algorithm.use_kl_in_reward=true", "type has no effect without"),
    (
        {"algorithm.kl_ctrl.kl_coef": 0.01, f"{ACTOR}.use_kl_loss": True},
        f"{ACTOR}.kl_loss_coef=0.01",
        "kl_coef has no effect",
    ),
    ({f"{ACTOR}.kl_loss_coef": 0.01}, f"{ACTOR}.use_kl_loss=true", "kl_loss_coef has no effect without"),
    (
        {"algorithm.rollout_correction.rollout_is_threshold": 3.0},
        "algorithm.rollout_correction.rollout_is=token",
        "rollout_is_threshold has no effect without",
    ),
    ({"model.lora_rank": 8}, f"{ROLLOUT}.load_format=safetensors", "lora_rank needs"),
    ({"trainer.seed": 3}, "data.seed=3", ""),
]


@pytest.mark.parametrize(("overrides", "argument", "note"), REPAIRED)
def test_a_dead_override_is_repaired_and_noted(describe, prepared, overrides, argument, note):
    arguments, notes = prepared(describe(overrides).config)
    assert argument in arguments
    assert note == "" or any(note in one for one in notes)
    assert len({one.partition("=")[0] for one in arguments}) == len(arguments)


@pytest.mark.parametrize(
    ("name", "value", "argument"),
    [
        (f"{ACTOR}.clip_ratio", 0.1, f"{ACTOR}.clip_ratio_high=0.1"),
        (f"{ACTOR}.grad_clip", 0.3, f"{ACTOR}.optim.clip_grad=0.3"),
        ("algorithm.kl_ctrl.kl_coef", 0.02, "algorithm.use_kl_in_reward=true"),
        ("algorithm.kl_ctrl.kl_coef", 0.001, "algorithm.use_kl_in_reward=true"),
        (f"{ACTOR}.kl_loss_coef", 0.05, f"{ACTOR}.use_kl_loss=true"),
    ],
)
def test_a_dead_parameter_takes_effect_when_it_is_searched_also_with_its_default(
    describe, prepared, name, value, argument
):
    config = describe({}, [name]).config
    assert get_backend("verl").check({**config, name: value}) == ()
    assert argument in prepared(config, **{name: value})[0]


REFUSED = [
    (
        {
            "algorithm.rollout_correction.rollout_is_threshold": 3.0,
            "algorithm.rollout_correction.rollout_is": None,
        },
        *("algorithm.rollout_correction.rollout_is_threshold", "no effect while", "Remove"),
    ),
    ({"algorithm.vf_coef": 0.5}, "algorithm.vf_coef", "critic is a model of its own", "Remove"),
    ({"critic.vf_coef": 0.5}, "critic.vf_coef", "critic is a model of its own", "Remove"),
    ({"algorithm.kl_ctrl.target_kl": 0.1}, "algorithm.kl_ctrl.target_kl", "no effect with", "adaptive"),
    (
        {"algorithm.kl_ctrl.kl_coef": 0.1, "algorithm.use_kl_in_reward": False},
        *("algorithm.kl_ctrl.kl_coef", "no effect while", "Remove one"),
    ),
    (
        {"algorithm.kl_ctrl.horizon": 1000, f"{ACTOR}.use_kl_loss": True},
        *("algorithm.kl_ctrl.horizon", "KL term is in the loss", "use_kl_in_reward"),
    ),
    ({f"{ACTOR}.kl_loss_coef": 0.1, f"{ACTOR}.use_kl_loss": False}, f"{ACTOR}.kl_loss_coef", "no effect", "Remove"),
    (
        {f"{ACTOR}.clip_ratio": 0.1, f"{ACTOR}.clip_ratio_low": 0.2, f"{ACTOR}.clip_ratio_high": 0.3},
        *(f"{ACTOR}.clip_ratio", "no effect", "Remove"),
    ),
    (
        {f"{ACTOR}.grad_clip": 0.1, f"{ACTOR}.optim.clip_grad": 0.2},
        *(f"{ACTOR}.grad_clip", "nothing reads", "optim.clip_grad only"),
    ),
    ({"reward_model.reward_loop_source": "x"}, "reward_model.reward_loop_source", "read by nothing", "reward"),
    ({"model.lora_rank": 8, f"{ROLLOUT}.load_format": "dummy"}, f"{ROLLOUT}.load_format", "random", "safetensors"),
    ({"critic.model.fsdp_config.param_offload": True}, "critic.model.fsdp_config.param_offload", "critic.fsdp", ""),
    ({"data": "digits"}, "data", "data.train_files", ""),
    ({"reward.name": "prefix_match"}, "reward.name", "custom_reward_function.path", ""),
    ({"algorithm.clip_rato": 0.1}, "algorithm.clip_rato", "no key", "'algorithm.clip_ratio'"),
    ({"algorithm.kl_ctrl": 0.1}, "algorithm.kl_ctrl", "group of keys", "algorithm.kl_ctrl.kl_coef"),
    ({"algorithm.gamma": "much"}, "algorithm.gamma", "must be a number", ""),
    ({f"{ACTOR}.ppo_epochs": 1.5}, f"{ACTOR}.ppo_epochs", "must be a whole number", ""),
    ({f"{ACTOR}.optim.lr": 1e-6, "trainer.optim.lr": 2e-6}, "trainer.optim.lr", "both set", "Remove one"),
    ({"trainer.fsdp_config.sharding_strategy": "HYBRID"}, "trainer.fsdp_config.sharding_strategy", "HYBRID", "FULL"),
    # what verl itself would find out only after it has started
    ({f"{ACTOR}.optim.clip_grad": 0.0}, f"{ACTOR}.optim.clip_grad", "above 0 (verl would zero", ""),
    ({"trainer.grad_clip": -1.0}, "trainer.grad_clip", "above 0", ""),
    ({"rollout.name": "hf"}, "rollout.name", "vllm, sglang", ""),
    ({f"{ROLLOUT}.mode": "sync"}, f"{ROLLOUT}.mode", "one of async", ""),
    ({f"{ACTOR}.loss_agg_mode": "mean"}, f"{ACTOR}.loss_agg_mode", "token-mean", ""),
    ({f"{ACTOR}.policy_loss.loss_mode": "ppo"}, f"{ACTOR}.policy_loss.loss_mode", "vanilla", ""),
    ({f"{ACTOR}.policy_loss.loss_mode": "dro"}, f"{ACTOR}.policy_loss.loss_mode", "dro_beta", ""),
    ({f"{ACTOR}.clip_ratio_c": 1.0}, f"{ACTOR}.clip_ratio_c", "above 1", "3.0"),
    ({"trainer.mini_batch_size": 512}, "trainer.mini_batch_size", "batch of 256", "Lower"),
    ({"trainer.train_batch_size": 255}, "trainer.train_batch_size", "255 prompts x 1", "multiple of 2"),
    ({"trainer.mini_batch_size": 63}, "trainer.mini_batch_size", "63 prompts", "multiple of 2"),
    ({"trainer.ppo_micro_batch_size_per_gpu": ...}, "", "no micro-batch size", "use_dynamic_bsz"),
    ({f"{ACTOR}.ppo_micro_batch_size": 4}, f"{ACTOR}.ppo_micro_batch_size", "both set", "Remove"),
    (
        {"trainer.use_dynamic_bsz": True, "trainer.ppo_max_token_len_per_gpu": 512},
        *("trainer.ppo_max_token_len_per_gpu", "fewer than one sequence of up to 1024", "1024"),
    ),
    (
        {"rollout.enable_chunked_prefill": False, "rollout.max_num_batched_tokens": 512},
        "rollout.max_num_batched_tokens",
        "must hold",
        "",
    ),
    ({f"{ROLLOUT}.max_model_len": 600}, f"{ROLLOUT}.max_model_len", "fewer than prompt", "1024"),
    ({"rollout.tensor_model_parallel_size": 4}, "rollout.tensor_model_parallel_size", "engines of 4", "Lower"),
    ({f"{ROLLOUT}.pipeline_model_parallel_size": 2}, f"{ROLLOUT}.pipeline_model_parallel_size", "no engine", "1"),
    (
        {f"{ACTOR}.ulysses_sequence_parallel_size": 2, f"{MODEL}.use_remove_padding": False},
        *(f"{ACTOR}.ulysses_sequence_parallel_size", "padding removed", "true"),
    ),
    ({"model.lora_rank": 1024}, "model.lora_rank", "up to 512", "Lower"),
    ({f"{ROLLOUT}.val_kwargs.do_sample": True, "rollout.temperature": 0.0}, "rollout.temperature", "above 0", ""),
    ({"reward.reward_model.enable": True}, "reward.reward_model.enable", "no path", ""),
    (
        {"model_engine": "megatron", f"{ACTOR}.megatron.tensor_model_parallel_size": 4},
        *(f"{ACTOR}.megatron.tensor_model_parallel_size", "model-parallel groups of 4", ""),
    ),
    ({"trainer.total_steps": ...}, "", "how many steps", "trainer.total_steps"),
]


@pytest.mark.parametrize(("overrides", "key", "message", "fix"), REFUSED)
def test_what_cannot_work_is_refused_where_it_was_written(refused, overrides, key, message, fix):
    problem = refused(overrides)[0]
    assert problem.path == (f"trainer.overrides.{key}" if key else "trainer.overrides")
    assert message in problem.message
    assert fix in problem.hint


def test_a_searched_parameter_that_verl_lacks_is_refused_at_its_place_in_the_search(refused):
    (problem,) = refused({}, ["algorithm.vf_coef"])
    assert problem.path == "search.algorithm.vf_coef"
    assert "critic_lr" in problem.message


def test_a_search_over_a_clip_ratio_that_never_clips_is_refused_unless_that_varies_too(refused, describe, prepared):
    once = {"trainer.ppo_epochs": 1, "trainer.mini_batch_size": 256}
    (problem,) = refused(once, ["algorithm.clip_ratio"])
    assert problem.path == "search.algorithm.clip_ratio"
    assert "ratio is exactly 1" in problem.message
    one_epoch = {"trainer.mini_batch_size": 256}
    config = describe(one_epoch, ["algorithm.clip_ratio", "trainer.ppo_epochs"]).config
    _, notes = prepared(config, **{"algorithm.clip_ratio": 0.3})
    assert any("nothing is clipped here" in note for note in notes)


def test_all_problems_are_reported_at_once(refused):
    found = refused({"algorithm.clip_rato": 1, "algorithm.gamma": "x", "data": "digits"})
    assert {problem.path.rpartition(".")[2] for problem in found} == {"clip_rato", "gamma", "data"}


def test_a_trial_that_verl_would_refuse_is_named_by_its_searched_parameter(describe):
    config = describe({}, ["trainer.mini_batch_size"]).config
    (problem,) = get_backend("verl").check({**config, "trainer.mini_batch_size": 512})
    assert problem.path == "trainer.mini_batch_size"
    assert get_backend("verl").check({**config, "trainer.mini_batch_size": 128}) == ()
