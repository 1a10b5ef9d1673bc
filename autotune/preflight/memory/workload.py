"""What one trial does to the memory of one GPU, in terms that do not depend on the trainer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autotune.preflight.memory.shape import ModelShape


class Sharding(StrEnum):
    """How the parameters of a network lie on the ranks."""

    FULL = "full"
    """Sharded; gathered block by block, in forward and backward."""
    GRAD_OP = "grad_op"
    """Sharded; gathered in the forward and kept until the backward has passed."""
    NONE = "none"
    """Whole on every rank and computed with as it lies: no FSDP."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """The rollout engine as far as it shares the trainer's device.

    Attributes:
        copy_bytes: Bytes per parameter of a whole copy of the actor that the engine holds; 0 for none of its own.
        cache_rows: Sequences whose keys and values are held at once; 0 when `reserved` holds them.
        cache_length: Longest sequence (tokens).
        cache_bytes: Bytes per element of the cache.
        reserved: Bytes that the engine takes as a whole, weights and cache; 0 when it takes what it needs.
        utilization: Share of the device that the engine takes as a whole; 0 when it takes what it needs.
        tensor_parallel: GPUs that share one engine.
        stays: The engine keeps its memory while the networks are updated.
    """

    copy_bytes: float = 0.0
    cache_rows: int = 0
    cache_length: int = 0
    cache_bytes: int = 2
    reserved: int = 0
    utilization: float = 0.0
    tensor_parallel: int = 1
    stays: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """One trial.

    Attributes:
        critic: Its backbone; None without a critic.
        reference: The reference is a network of its own (with adapters it is the actor without them).
        world: Ranks that share the parameters.
        shards: Ranks that one copy of the parameters is spread over.
        master_bytes: Bytes per parameter that is trained, as the optimizer sees it.
        frozen_bytes: Bytes per parameter that is not trained: the reference's, or those below adapters.
        compute_bytes: Bytes per element in forward and backward.
        lora_rank: 0 = every parameter is trained.
        offload_state: Parameters and optimizer states wait in the host's memory between their uses.
        rows: Sequences of the largest micro-batch of an update.
        accumulates: An update adds up the gradients of several micro-batches.
        length: Places of a sequence, prompt and response.
        measured_rows: Sequences of the largest micro-batch without gradients.
        logit_places: Places of a sequence whose logits are computed.
        logit_bytes: Bytes per logit at the peak of the backward, copies and gradient included.
        logit_chunk: Logits that are worked on at once, in float32; 0 when all are (then in `logit_bytes`).
        padded: Attention gets a mask with an entry per pair of places, in every block.
        host: The device is the CPU.
    """

    actor: ModelShape
    critic: ModelShape | None
    reference: bool
    world: int
    shards: int
    sharding: Sharding
    master_bytes: float
    frozen_bytes: float
    compute_bytes: int
    lora_rank: int
    offload_state: bool
    checkpointing: bool
    rows: int
    accumulates: bool
    length: int
    measured_rows: int
    logit_places: int
    logit_bytes: float
    logit_chunk: int
    padded: bool
    engine: Engine
    host: bool
