"""From verl's composed configuration to the memory it works with, on FSDP."""

from __future__ import annotations

from autotune.backends.verl.names import ACTOR, MODEL, REF, ROLLOUT
from autotune.backends.verl.rules import needs_critic, needs_reference
from autotune.preflight.memory.models import find_model
from autotune.preflight.memory.values import flag, number, text
from autotune.preflight.memory.workload import Engine, Sharding, Workload
from autotune.spec.values import FlatConfig

_BYTES = {"fp32": 4, "float32": 4, "bf16": 2, "bfloat16": 2, "fp16": 2, "float16": 2}
_LOGIT_COPIES = 6
"""Logits, their gradient, and the softmax of the entropy in float32, counted in the type of the computation."""


def verl_workload(tree: FlatConfig) -> Workload | None:
    """The workload of one GPU; None when the model's sizes are unknown or another engine than FSDP runs it.

    Args:
        tree: The whole composed configuration, flat.
    """
    shape = find_model(text(tree, f"{MODEL}.path", "")).shape
    critic = find_model(text(tree, "critic.model.path", "")).shape or shape
    if shape is None or text(tree, f"{ACTOR}.strategy", "fsdp") not in ("fsdp", "fsdp2"):
        return None
    world = max(1, number(tree, "trainer.n_gpus_per_node", 1) * max(1, number(tree, "trainer.nnodes", 1)))
    fsdp = f"{ACTOR}.fsdp_config"
    group = tree.get(f"{fsdp}.fsdp_size")
    shards = group if isinstance(group, int) and 0 < group < world else world
    sharding = Sharding.GRAD_OP if tree.get(f"{fsdp}.reshard_after_forward") is False else Sharding.FULL
    length = number(tree, "data.max_prompt_length", 512) + number(tree, "data.max_response_length", 512)
    parallel = max(1, number(tree, f"{ACTOR}.ulysses_sequence_parallel_size", 1))
    replies = max(1, number(tree, f"{ROLLOUT}.n", 1))
    mini = max(1, number(tree, f"{ACTOR}.ppo_mini_batch_size", 1) * replies * parallel // world)
    rows = _rows(tree, f"{ACTOR}.ppo_micro_batch_size_per_gpu", f"{ACTOR}.ppo_max_token_len_per_gpu", length)
    measured = _rows(
        tree, f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu", f"{ROLLOUT}.log_prob_max_token_len_per_gpu", length
    )
    compute = _BYTES.get(text(tree, f"{fsdp}.dtype", "bfloat16"), 2)
    rank = number(tree, f"{MODEL}.lora_rank", 0)
    return Workload(
        actor=shape,
        critic=critic if needs_critic(tree) else None,
        reference=needs_reference(tree) and rank == 0,
        world=world,
        shards=shards,
        sharding=sharding,
        master_bytes=_BYTES.get(text(tree, f"{fsdp}.model_dtype", "fp32"), 4),
        frozen_bytes=_BYTES.get(text(tree, f"{REF}.fsdp_config.model_dtype", "fp32"), 4),
        compute_bytes=compute,
        lora_rank=rank,
        offload_state=(flag(tree, f"{fsdp}.param_offload") and flag(tree, f"{fsdp}.optimizer_offload"))
        or flag(tree, f"{fsdp}.offload_policy"),
        checkpointing=flag(tree, f"{MODEL}.enable_gradient_checkpointing"),
        rows=min(rows, mini),
        accumulates=rows < mini,
        length=-(-length // parallel),
        measured_rows=measured,
        # With padding removed the head sees every token, else the response's.
        logit_places=-(-length // parallel)
        if flag(tree, f"{MODEL}.use_remove_padding")
        else number(tree, "data.max_response_length", 512),
        logit_bytes=_LOGIT_COPIES * compute,
        logit_chunk=0,
        padded=not flag(tree, f"{MODEL}.use_remove_padding"),
        engine=_engine(tree, length),
        host=False,
    )


def _rows(tree: FlatConfig, size: str, budget: str, length: int) -> int:
    if flag(tree, f"{ACTOR}.use_dynamic_bsz"):
        return max(1, number(tree, budget, number(tree, f"{ACTOR}.ppo_max_token_len_per_gpu", length)) // length)
    return max(1, number(tree, size, 1))


def _engine(tree: FlatConfig, length: int) -> Engine:
    share = tree.get(f"{ROLLOUT}.gpu_memory_utilization")
    element = _BYTES.get(text(tree, f"{ROLLOUT}.dtype", "bfloat16"), 2)
    return Engine(
        copy_bytes=element,
        cache_rows=1,
        cache_length=length,
        cache_bytes=element,
        utilization=float(share) if isinstance(share, int | float) else 0.5,
        tensor_parallel=max(1, number(tree, f"{ROLLOUT}.tensor_model_parallel_size", 1)),
        stays=tree.get(f"{ROLLOUT}.free_cache_engine") is False,
    )
