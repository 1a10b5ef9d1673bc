"""Whether a trial fits on its device, and what would make it fit."""

from __future__ import annotations

from autotune.errors import Problem
from autotune.preflight.memory.capacity import Capacity
from autotune.preflight.memory.estimate import GIB, Estimate

MARGIN = 0.15
"""How far the estimate may be above the truth: a trial is refused only when it would not fit even then."""

_CURES: tuple[tuple[str, str, str], ...] = (
    ("activations", "trainer.ppo_micro_batch_size_per_gpu", "lower it, or enable_gradient_checkpointing"),
    ("backward pass", "trainer.ppo_micro_batch_size_per_gpu", "lower it"),
    ("logits", "trainer.ppo_micro_batch_size_per_gpu", "lower it: logits grow with tokens times vocabulary"),
    ("forward pass", "trainer.ppo_micro_batch_size_per_gpu", "lower it"),
    ("engine", "rollout.gpu_memory_utilization", "lower it"),
    ("key-value cache", "rollout.max_batch_size", "lower it"),
    ("sampling from logits", "rollout.max_batch_size", "lower it"),
)
_OF_NETWORKS = ("actor weights", "critic weights", "reference weights", " optimizer", " gathered", " gradients")
_STATES = ("model.lora_rank", "train adapters (for example 16), set fsdp_config.cpu_offload, or use more GPUs")


def too_large(found: Estimate, room: Capacity) -> Problem | None:
    """The problem of a trial that cannot fit; None when it fits, may fit, or nobody knows.

    Args:
        found: What the trial needs.
        room: What there is.
    """
    if room.bytes is None or found.peak * (1 - MARGIN) <= room.bytes:
        return None
    path, hint = _cure(found, room.bytes)
    device = "CPU" if room.host else "GPU"
    message = (
        f"needs about {found.peak / GIB:.1f} GiB on one {device} in the {found.phase} ({breakdown(found)}), "
        f"but there are {room.bytes / GIB:.1f} GiB ({room.source})."
    )
    return Problem(message=message, hint=f"{hint[:1].upper()}{hint[1:]}.", path=path)


def breakdown(found: Estimate, parts: int = 4) -> str:
    """The largest parts of the peak in a few words, in GiB."""
    return ", ".join(f"{part.name} {part.bytes / GIB:.2f}" for part in found.largest[:parts])


def _cure(found: Estimate, room: int) -> tuple[str, str]:
    """The parameter that the largest curable part hangs on; where the networks alone are too large, they are it."""
    networks = [part for part in found.largest if part.name.endswith(_OF_NETWORKS)]
    if sum(part.bytes for part in networks) * (1 - MARGIN) > room:
        return _STATES
    for part in found.largest:
        for word, path, hint in _CURES:
            if part.name.startswith(word):
                return path, hint
        if part in networks:
            return _STATES
    return _STATES
