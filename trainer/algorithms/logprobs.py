"""Log-probabilities and entropy from logits."""

from __future__ import annotations

import torch
from torch import Tensor


def token_logprobs(logits: Tensor, tokens: Tensor, *, temperature: float) -> Tensor:
    """Log-probability of each token under `softmax(logits / temperature)`, in float32.

    Args:
        logits: `[batch, time, vocab]`; position t holds the distribution of `tokens[:, t]`.
        tokens: `[batch, time]`, int64.
        temperature: The sampling temperature; the same in every pass, or the ratio is not 1 before the first update.

    Returns:
        `[batch, time]`, nats.
    """
    scaled = logits.float() / temperature
    chosen = scaled.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return chosen - torch.logsumexp(scaled, dim=-1)


def token_entropy(logits: Tensor, *, temperature: float) -> Tensor:
    """Entropy of `softmax(logits / temperature)` at each position: `logsumexp(z) - sum(softmax(z) * z)`.

    Args:
        logits: `[batch, time, vocab]`.
        temperature: The sampling temperature.

    Returns:
        `[batch, time]`, nats, float32.
    """
    scaled = logits.float() / temperature
    return torch.logsumexp(scaled, dim=-1) - (scaled.softmax(dim=-1) * scaled).sum(dim=-1)
