"""Peaks of large runs that others have published, and the estimate for each.

None of them is a run of this project's trainer; each fixes some parts of the estimate: weights and optimizer under
adapters, activations under checkpointing, logits, sharding over ranks, and the four networks of PPO.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from autotune.preflight.memory import GIB, Engine, ModelShape, Sharding, Workload, estimate

_QWEN_7B = ModelShape(
    layers=32, hidden=4096, inner=11008, heads=32, query=4096, key_value=4096, vocab=151936, tied=False, biases=20480
)
_QWEN_14B = ModelShape(
    layers=40, hidden=5120, inner=13696, heads=40, query=5120, key_value=5120, vocab=152064, tied=False, biases=25600
)
_LLAMA_8B = ModelShape(
    layers=32, hidden=4096, inner=14336, heads=32, query=4096, key_value=1024, vocab=128256, tied=False, biases=8192
)
_QWEN_HALF_B = ModelShape(
    layers=24, hidden=896, inner=4864, heads=14, query=896, key_value=128, vocab=151936, tied=True, biases=2944
)
_GEMMA_2B = ModelShape(
    layers=26, hidden=2304, inner=9216, heads=8, query=2048, key_value=1024, vocab=256000, tied=True, biases=9216
)
_README = "Qwen's README, profiling of finetuning: one A100, batch 1, bfloat16, flash attention, LoRA of rank 64"
_TITAN = "torchtitan, benchmarks/llama3_h100_202412, table 2: FSDP over 8 H100, batch 1, full checkpointing"
_VERL = "verl's published GSM8K logs (verl-data, branch experiments): allocated before the rollout engine is built"


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """One figure.

    Attributes:
        estimate: Bytes.
        measured: Bytes.
    """

    name: str
    estimate: int
    measured: int
    source: str


def published() -> Iterator[Published]:
    """All figures."""
    for label, shape, figures in (
        ("Qwen-7B", _QWEN_7B, {512: 20.4, 2048: 23.8, 4096: 29.7, 8192: 36.6}),
        ("Qwen-14B", _QWEN_14B, {512: 35.1, 2048: 37.4, 4096: 42.5, 8192: 55.2}),
    ):
        for length, gigabytes in figures.items():
            found = estimate(replace(_tuning(shape, length), lora_rank=64)).peak
            name = f"{label}, LoRA, {length} tokens"
            yield Published(name=name, estimate=found, measured=int(gigabytes * 1e9), source=_README)
    sharded = replace(_tuning(_LLAMA_8B, 32768), world=8, shards=8, sharding=Sharding.FULL, accumulates=False)
    yield Published(
        name="Llama 3.1 8B, FSDP, 32768 tokens",
        estimate=estimate(sharded).peak,
        measured=int(83.9 * GIB),
        source=_TITAN,
    )
    yield _ppo_states("Qwen2.5-0.5B, PPO's networks on one GPU", _QWEN_HALF_B, ranks=1, reference=True, gib=4.6028)
    # Here the reference waits in the host's memory.
    yield _ppo_states("gemma-2-2b, PPO's networks on two GPUs", _GEMMA_2B, ranks=2, reference=False, gib=9.7421)


def _tuning(shape: ModelShape, length: int) -> Workload:
    """Supervised finetuning of one network, one sequence at a time."""
    return Workload(
        actor=shape,
        critic=None,
        reference=False,
        world=1,
        shards=1,
        sharding=Sharding.NONE,
        master_bytes=4,
        frozen_bytes=2,
        compute_bytes=2,
        lora_rank=0,
        offload_state=False,
        checkpointing=True,
        rows=1,
        accumulates=True,
        length=length,
        measured_rows=1,
        logit_places=length,
        logit_bytes=12,  # bfloat16, and in float32 the loss's copy, and their gradients
        logit_chunk=0,
        padded=False,
        engine=Engine(),
        host=False,
    )


def _ppo_states(name: str, shape: ModelShape, *, ranks: int, reference: bool, gib: float) -> Published:
    """Weights of actor, critic and reference as they lie between two steps, before there is an optimizer."""
    work = replace(_tuning(shape, 1), critic=shape, reference=reference, world=ranks, shards=ranks)
    weights = sum(part.bytes for part in estimate(work).parts if part.name.endswith(" weights"))
    return Published(name=name, estimate=weights, measured=int(gib * GIB), source=_VERL)
