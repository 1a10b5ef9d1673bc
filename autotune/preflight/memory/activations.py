"""Activations: what the forward pass leaves for the backward, and what it needs while it runs.

Counted from the operations of Hugging Face's decoder blocks with scaled dot-product attention; per token of one block,
with h = hidden, q = query heads' width, f = feed-forward width:

* norms: their normalised input (compute type) and, for RMSNorm, its float32 copy and the normalised float32;
* attention: its input (h), queries, keys and values after they were repeated for all heads (3 q), its output (q), and a
  float32 normaliser per head;
* feed-forward: its input (h); gate, activation, up and their product (4 f), or two f without a gate.
"""

from __future__ import annotations

from autotune.preflight.memory.shape import ModelShape

FLOAT32 = 4


def block_saved(shape: ModelShape, compute: int, *, frozen: bool) -> int:
    """Bytes per token that one block keeps for its backward pass.

    Args:
        shape: The model's sizes.
        compute: Bytes per element.
        frozen: The norms' weights are not trained, so their normalised input is not kept.
    """
    # In float32 the upcast of a norm is no copy: it keeps its input, which is the residual stream itself.
    norm = shape.hidden * (FLOAT32 + (0 if frozen else compute)) if shape.rms_norm else shape.hidden * compute
    attention = compute * (shape.hidden + 4 * shape.query) + FLOAT32 * shape.heads
    feed_forward = compute * (shape.hidden + (4 if shape.gated else 2) * shape.inner)
    return 2 * norm + attention + feed_forward


def block_passing(shape: ModelShape, compute: int) -> int:
    """Bytes per token that are alive at once while a block runs without keeping anything."""
    feed_forward = (3 if shape.gated else 2) * shape.inner
    attention = 4 * shape.query + shape.hidden
    return compute * (2 * shape.hidden + max(feed_forward, attention))


def block_backward(shape: ModelShape, compute: int) -> int:
    """Bytes per token of gradients that are alive at once while a block runs backward."""
    norm = FLOAT32 * shape.hidden if shape.rms_norm else 0
    return compute * (shape.hidden + (2 if shape.gated else 1) * shape.inner) + norm


def mask_bytes(rows: int, length: int, element: int) -> int:
    """Bytes of an attention mask with an entry per pair of places."""
    return rows * length * length * element
