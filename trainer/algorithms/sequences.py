"""From the log-probabilities of tokens to one number per response."""

from __future__ import annotations

from torch import Tensor, where, zeros_like


def sequence_logprobs(logprobs: Tensor, mask: Tensor, *, per_token: bool = False) -> Tensor:
    """Log-probability of each whole response.

    Args:
        logprobs: `[batch, time]` (nats).
        mask: `[batch, time]`, boolean, the tokens of the response.
        per_token: Divide by the number of tokens, so that long responses weigh no more than short ones.

    Returns:
        `[batch]`, nats, or nats per token; 0 for a response without tokens.
    """
    # A mask multiplied in would keep a NaN of the padding.
    total = where(mask, logprobs, zeros_like(logprobs)).sum(dim=-1)
    return total / mask.sum(dim=-1).clamp(min=1) if per_token else total
