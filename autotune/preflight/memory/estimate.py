"""The peak memory of one GPU, with the parts that it consists of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.preflight.memory.activations import (
    FLOAT32,
    block_backward,
    block_passing,
    block_saved,
    mask_bytes,
)
from autotune.preflight.memory.shape import ModelShape
from autotune.preflight.memory.workload import Sharding, Workload

GIB = 2**30
ROLLOUT, MEASURE, ACTOR_UPDATE, CRITIC_UPDATE = "rollout", "measure", "actor update", "critic update"
PHASES = (ROLLOUT, MEASURE, ACTOR_UPDATE, CRITIC_UPDATE)
_UPDATES = (ACTOR_UPDATE, CRITIC_UPDATE)
_MOMENTS = 2 * FLOAT32  # AdamW's two, in float32
_CHUNK_COPIES = 4  # float32 tensors of a chunk's size that the log-probabilities need at once
RUNTIME = "runtime"
_GPU_RUNTIME = GIB  # the CUDA context, cuBLAS and NCCL buffers
_HOST_RUNTIME = 4 * GIB // 10  # an interpreter with torch and transformers loaded


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One use of memory.

    Attributes:
        bytes: On one GPU.
        phases: When it is held, of `PHASES`.
    """

    name: str
    bytes: int
    phases: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """What one trial needs on one GPU.

    Attributes:
        parts: Its parts, those of no size left out.
    """

    parts: tuple[Part, ...]

    def of(self, phase: str) -> int:
        """Bytes held in a phase."""
        return sum(part.bytes for part in self.parts if phase in part.phases)

    @property
    def phase(self) -> str:
        """The phase that needs most."""
        return max(PHASES, key=self.of)

    @property
    def peak(self) -> int:
        """Bytes of the phase that needs most."""
        return self.of(self.phase)

    @property
    def largest(self) -> tuple[Part, ...]:
        """The parts of the phase that needs most, the largest first."""
        held = [part for part in self.parts if self.phase in part.phases]
        return tuple(sorted(held, key=lambda part: -part.bytes))


def estimate(work: Workload, device_bytes: int | None = None) -> Estimate:
    """The estimate of a trial.

    Args:
        work: What it does.
        device_bytes: Memory of the device, for an engine that takes a share of it; None counts the engine as what it
            must hold at least.
    """
    parts = [
        *_states(work),
        *_gathered(work),
        *_engine(work, device_bytes),
        *_measuring(work),
        *_training(work, work.actor, ACTOR_UPDATE, head=True),
        *([] if work.critic is None else _training(work, work.critic, CRITIC_UPDATE, head=False)),
        Part(name=RUNTIME, bytes=_HOST_RUNTIME if work.host else _GPU_RUNTIME, phases=PHASES),
    ]
    phases = PHASES if work.critic is not None else PHASES[:-1]
    kept = (_within(part, phases) for part in parts if part.bytes > 0)
    return Estimate(parts=tuple(part for part in kept if part.phases))


def _within(part: Part, phases: tuple[str, ...]) -> Part:
    return Part(name=part.name, bytes=part.bytes, phases=tuple(phase for phase in part.phases if phase in phases))


def _states(work: Workload) -> Iterator[Part]:
    """Parameters, optimizer states and gradients as they lie on one rank between their uses."""
    networks = [("actor", work.actor, work.actor.parameters, ACTOR_UPDATE)]
    if work.critic is not None:
        networks.append(("critic", work.critic, work.critic.backbone, CRITIC_UPDATE))
    for name, shape, size, phase in networks:
        trained = shape.adapters(work.lora_rank) if work.lora_rank else size
        frozen = size if work.lora_rank else 0
        at = (phase,) if work.offload_state else PHASES
        weights = (trained * work.master_bytes + frozen * work.frozen_bytes) / work.shards
        yield Part(name=f"{name} weights", bytes=int(weights), phases=at)
        yield Part(name=f"{name} optimizer", bytes=int(trained * _MOMENTS / work.shards), phases=at)
    if work.reference and not work.offload_state:
        held = int(work.actor.parameters * work.frozen_bytes / work.shards)
        yield Part(name="reference weights", bytes=held, phases=PHASES)
    elif work.reference:
        held = int(work.actor.parameters * work.frozen_bytes / work.shards)
        yield Part(name="reference weights", bytes=held, phases=(MEASURE,))


def _gathered(work: Workload) -> Iterator[Part]:
    """Whole parameters in the type of the computation, put together from the ranks for forward and backward."""
    critic = 0 if work.critic is None else _at_once(work, work.critic, head=False)
    actor = _at_once(work, work.actor, head=True)
    if work.sharding is Sharding.NONE:
        return
    if work.sharding is Sharding.GRAD_OP:
        # A forward without a backward leaves them: the reference's for good, the others' until their update.
        held = actor if work.reference else 0
        yield Part(name="reference gathered", bytes=held, phases=PHASES)
        yield Part(name="actor gathered", bytes=actor, phases=(MEASURE, ACTOR_UPDATE))
        yield Part(name="critic gathered", bytes=critic, phases=(MEASURE, *_UPDATES))
    else:
        yield Part(name="actor gathered", bytes=actor, phases=(MEASURE, ACTOR_UPDATE))
        yield Part(name="critic gathered", bytes=critic, phases=(CRITIC_UPDATE,))


def _at_once(work: Workload, shape: ModelShape, *, head: bool) -> int:
    root = shape.embeddings + (shape.head if head else 0)
    if work.sharding is Sharding.GRAD_OP:
        return (shape.layers * shape.block + root) * work.compute_bytes
    return (min(2, shape.layers) * shape.block + root) * work.compute_bytes


def _engine(work: Workload, device_bytes: int | None) -> Iterator[Part]:
    engine, shape = work.engine, work.actor
    at = PHASES if engine.stays else (ROLLOUT,)
    if engine.utilization and device_bytes is not None:
        share = int(engine.utilization * device_bytes)
        yield Part(name="engine (its share of the device)", bytes=share, phases=at)
        return
    copied = int(shape.parameters * engine.copy_bytes / engine.tensor_parallel)
    yield Part(name="engine weights", bytes=copied, phases=at)
    yield Part(name="engine cache (fixed)", bytes=engine.reserved, phases=at)
    per_token = 2 * shape.layers * shape.key_value * engine.cache_bytes / engine.tensor_parallel
    cache = int(engine.cache_rows * engine.cache_length * per_token)
    yield Part(name="key-value cache", bytes=cache, phases=(ROLLOUT,))
    # A decoding step turns the logits into a cumulative distribution in float64.
    sampling = engine.cache_rows * shape.vocab * (2 * FLOAT32 + 16)
    yield Part(name="sampling from logits", bytes=sampling, phases=(ROLLOUT,))


def _measuring(work: Workload) -> Iterator[Part]:
    """Forward passes without gradients."""
    tokens = work.measured_rows * work.length
    passing = tokens * block_passing(work.actor, work.compute_bytes)
    yield Part(name="forward pass", bytes=passing, phases=(MEASURE,))
    logits = work.measured_rows * work.logit_places * work.actor.vocab
    yield Part(name="logits (measured)", bytes=logits * work.compute_bytes, phases=(MEASURE,))
    yield Part(name="logits in float32 (measured)", bytes=_chunk(work, logits), phases=(MEASURE,))


def _training(work: Workload, shape: ModelShape, phase: str, *, head: bool) -> Iterator[Part]:
    """Forward and backward of one network on the largest micro-batch, and its gradients."""
    compute, tokens = work.compute_bytes, work.rows * work.length
    saved = tokens * block_saved(shape, compute, frozen=work.lora_rank > 0)
    if work.padded:
        saved += mask_bytes(work.rows, work.length, compute)
    inputs = shape.layers * tokens * shape.hidden * compute
    if work.checkpointing:
        yield Part(name="activations (inputs of blocks)", bytes=inputs, phases=(phase,))
        yield Part(name="activations (one block again)", bytes=saved, phases=(phase,))
    else:
        yield Part(name="activations", bytes=shape.layers * saved, phases=(phase,))
    final = work.rows * work.logit_places * shape.hidden * 2 * compute
    passing = tokens * block_backward(shape, compute) + final
    # The head's gradient stays whole until the root's turn, which comes last.
    whole = 0 if work.lora_rank or not head else shape.embeddings * compute
    yield Part(name="backward pass", bytes=passing + whole, phases=(phase,))
    if head:
        logits = work.rows * work.logit_places * shape.vocab
        yield Part(name="logits", bytes=int(logits * work.logit_bytes), phases=(phase,))
        yield Part(name="logits in float32", bytes=_chunk(work, logits), phases=(phase,))
    trained = shape.adapters(work.lora_rank) if work.lora_rank else (shape.parameters if head else shape.backbone)
    gradients = int(trained * FLOAT32 / work.shards)
    # In one micro-batch they come as the activations go; from the second on both are there.
    freed = 0 if work.accumulates else (inputs if work.checkpointing else shape.layers * saved)
    name = "actor gradients" if head else "critic gradients"
    yield Part(name=name, bytes=max(0, gradients - freed), phases=(phase,))


def _chunk(work: Workload, logits: int) -> int:
    return min(logits, work.logit_chunk) * _CHUNK_COPIES * FLOAT32
