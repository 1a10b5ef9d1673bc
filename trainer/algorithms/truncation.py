"""What a response loses for its length."""

from __future__ import annotations

from torch import Tensor


def overlong_penalty(response_mask: Tensor, truncated: Tensor, *, penalty: float, buffer: int) -> Tensor:
    """The soft overlong punishment (Yu et al. 2025, DAPO, arXiv:2503.14476, equation 13).

    With L places and a response of length l it is `penalty * clip((l - (L - buffer)) / buffer, 0, 1)`; a response that
    was cut always loses the whole penalty. With a buffer of 0 only those lose anything.

    Args:
        response_mask: `[batch, time]`, boolean; its width is the longest response allowed.
        truncated: `[batch]`, boolean, true where the length limit ended the response.
        penalty: Most that a response can lose (reward units, >= 0).
        buffer: Places before the limit over which the penalty rises (tokens, >= 0).

    Returns:
        `[batch]`, what to take off each score (>= 0).
    """
    cut = truncated.float()
    if buffer == 0:
        return penalty * cut
    used = response_mask.sum(dim=1).float() - (response_mask.shape[1] - buffer)
    return penalty * (used / buffer).clamp(0.0, 1.0).maximum(cut)
