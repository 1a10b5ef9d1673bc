"""From a configuration of the project's own trainer to the memory it works with."""

from __future__ import annotations

from autotune.preflight.memory.models import TINY, find_model
from autotune.preflight.memory.values import flag, number, text
from autotune.preflight.memory.workload import Engine, Sharding, Workload
from autotune.spec.values import FlatConfig

LOGIT_CHUNK = {"cpu": 2**20, "cuda": 2**24}
"""Logits that the trainer turns into float32 at once, as `trainer.algorithms.logprobs` has it."""
VLLM_CPU_CACHE = 2**30
VLLM_SHARE = 0.3
"""What the trainer gives to vLLM when nobody says anything: bytes on a CPU, a share of a GPU."""
_BYTES = {"float32": 4, "bfloat16": 2}


def native_workload(config: FlatConfig, *, world: int, host: bool) -> Workload | None:
    """The workload of one rank; None when the model's sizes are unknown.

    Args:
        config: A complete configuration of the native trainer.
        world: Ranks.
        host: The device is the CPU.
    """
    path = text(config, "model.path", TINY)
    shape = find_model(path, config).shape
    critic_path = text(config, "model.critic_path", "")
    critic = find_model(critic_path).shape if critic_path else shape
    if shape is None or critic is None:
        return None
    compute = _BYTES.get(text(config, "model.dtype", "float32"), 4)
    rank = number(config, "model.lora_rank", 0)
    samples = text(config, "algorithm.name", "ppo") == "ppo"
    needs_critic = samples and text(config, "algorithm.adv_estimator", "gae") == "gae"
    prompt, response = number(config, "data.max_prompt_length", 1), number(config, "data.max_response_length", 1)
    length = prompt + response
    share = max(1, number(config, "trainer.train_batch_size", 1) * number(config, "rollout.n", 1) // world)
    mini = max(1, number(config, "trainer.mini_batch_size", 1) * number(config, "rollout.n", 1) // world)
    micro = number(config, "trainer.ppo_micro_batch_size_per_gpu", 1)
    if flag(config, "trainer.use_dynamic_bsz"):
        micro = max(1, number(config, "trainer.ppo_max_token_len_per_gpu", length) // length)
    sharding, shards = _sharding(config, world)
    return Workload(
        actor=shape,
        critic=critic if needs_critic else None,
        reference=rank == 0,
        world=world,
        shards=shards,
        sharding=sharding,
        master_bytes=4,
        frozen_bytes=4,
        compute_bytes=compute,
        lora_rank=rank,
        offload_state=flag(config, "trainer.fsdp_config.cpu_offload") and not host,
        checkpointing=flag(config, "model.enable_gradient_checkpointing"),
        rows=min(micro, mini),
        accumulates=micro < mini,
        length=length,
        measured_rows=min(micro, share),
        logit_places=response + 1,
        logit_bytes=compute,
        logit_chunk=LOGIT_CHUNK["cpu" if host else "cuda"],
        padded=not flag(config, "trainer.use_remove_padding"),
        engine=_engine(config, share, length, compute, host=host),
        host=host,
    )


def _sharding(config: FlatConfig, world: int) -> tuple[Sharding, int]:
    """How parameters lie, and over how many ranks one copy is spread."""
    name = text(config, "trainer.fsdp_config.sharding_strategy", "SHARD_GRAD_OP")
    if name == "NO_SHARD":
        return Sharding.GRAD_OP, 1  # FSDP over groups of one: every rank holds all, and casts a copy to compute with
    if name == "HYBRID_SHARD":
        return Sharding.FULL, max(1, min(world, number(config, "trainer.fsdp_config.shard_group_size", world)))
    return (Sharding.FULL if name == "FULL_SHARD" else Sharding.GRAD_OP), world


def _engine(config: FlatConfig, share: int, length: int, compute: int, *, host: bool) -> Engine:
    rows = min(share, number(config, "rollout.max_batch_size", share))
    name = text(config, "rollout.name", "hf")
    if name == "sglang":
        return Engine()  # a server with a device of its own
    if name == "hf":
        # The copy is kept in float32, and so are its keys and values.
        return Engine(copy_bytes=4, cache_rows=rows, cache_length=length, cache_bytes=4)
    element = _BYTES.get(text(config, "rollout.dtype", ""), compute)
    if host:
        return Engine(copy_bytes=element, reserved=VLLM_CPU_CACHE)
    share_of_gpu = config.get("rollout.gpu_memory_utilization")
    return Engine(
        copy_bytes=element,
        cache_rows=rows,
        cache_length=length,
        cache_bytes=element,
        utilization=float(share_of_gpu) if isinstance(share_of_gpu, int | float) else VLLM_SHARE,
        tensor_parallel=max(1, number(config, "rollout.tensor_model_parallel_size", 1)),
        stays=config.get("rollout.enable_sleep_mode") is False,
    )
