"""The template for Qwen2 with vLLM says what its source says, and a shipped space searches around it."""

from __future__ import annotations

import pytest

from trainer.config import ConfigError, build, compose, flatten

TEMPLATE = {
    "model.path": "Qwen/Qwen2-7B-Instruct",
    "model.trust_remote_code": True,
    "model.enable_gradient_checkpointing": True,
    "model.lora_rank": 64,
    "algorithm.gamma": 1.0,
    "algorithm.lam": 0.95,
    "algorithm.clip_ratio": 0.1,
    "algorithm.kl_ctrl.type": "adaptive",
    "algorithm.kl_ctrl.kl_coef": 0.0005,
    "algorithm.kl_ctrl.target_kl": 0.1,
    "trainer.ppo_micro_batch_size_per_gpu": 16,
    "trainer.use_dynamic_bsz": True,
    "trainer.grad_clip": 0.1,
    "trainer.num_epochs": 1,
    "trainer.fsdp_config.sharding_strategy": "FULL_SHARD",
    "trainer.fsdp_config.cpu_offload": False,
    "rollout.name": "vllm",
    "rollout.dtype": "bfloat16",
    "rollout.gpu_memory_utilization": 0.6,
    "rollout.tensor_model_parallel_size": 1,
    "rollout.max_num_batched_tokens": 16384,
    "rollout.enable_chunked_prefill": True,
}


def test_the_template_composes_and_is_valid() -> None:
    composed = compose("my_qwen2_ppo_vllm")
    flat = flatten(composed)
    assert {key: flat[key] for key in TEMPLATE} == TEMPLATE
    assert build(composed).algorithm.needs_critic


def test_a_change_that_cannot_work_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"trainer\.ppo_max_token_len_per_gpu: got 512, must hold the longest sequence"
    ):
        build(compose("my_qwen2_ppo_vllm", {"trainer.ppo_max_token_len_per_gpu": 512}))
