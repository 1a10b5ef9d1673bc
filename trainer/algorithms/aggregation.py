"""How the losses of tokens become the loss of a mini-batch.

Each mode is a weight per response and one denominator for the whole mini-batch, so that micro-batches and ranks can add
up sums and the gradient does not depend on the split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from torch import Tensor


def num_tokens(mask: Tensor) -> Tensor:
    """Tokens that count, at least 1, as a scalar."""
    return mask.sum().clamp(min=1)


def num_sequences(mask: Tensor) -> Tensor:
    """Responses with at least one token that counts, at least 1, as a scalar."""
    return mask.any(dim=1).sum().clamp(min=1)


DENOMINATORS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "token-mean": num_tokens,
        "seq-mean-token-sum": num_sequences,
        "seq-mean-token-mean": num_sequences,
    }
)


def response_weights(mask: Tensor, loss_agg_mode: str) -> Tensor | None:
    """What the tokens of each response are multiplied with before they are summed.

    Args:
        mask: `[batch, time]`, boolean, the tokens that count.
        loss_agg_mode: A key of `DENOMINATORS`.

    Returns:
        `[batch, 1]`, or None for 1 everywhere.
    """
    if loss_agg_mode != "seq-mean-token-mean":
        return None
    return 1.0 / mask.sum(dim=1, keepdim=True).clamp(min=1).float()
