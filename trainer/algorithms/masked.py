"""Sums and means over the valid entries of padded tensors.

Invalid entries are replaced before any arithmetic: `NaN * 0` is NaN, so a mask must never be multiplied in.
"""

from __future__ import annotations

import torch
from torch import Tensor

_EPSILON = 1e-8


def masked_sum(values: Tensor, mask: Tensor) -> Tensor:
    """Sum over the entries where `mask` is true.

    Args:
        values: Any shape.
        mask: Boolean, same shape.

    Returns:
        A scalar; 0 when nothing is valid.
    """
    return torch.where(mask, values, torch.zeros_like(values)).sum()


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the entries where `mask` is true, a scalar; 0 when nothing is valid."""
    return masked_sum(values, mask) / mask.sum().clamp(min=1)


def masked_whiten(values: Tensor, mask: Tensor) -> Tensor:
    """Shift and scale to mean 0 and (biased) variance 1 over the valid entries.

    With fewer than two valid entries there is no variance: they are returned unchanged.

    Args:
        values: Any shape; for advantages the global batch, never one rank's or one micro-batch's part.
        mask: Boolean, same shape.

    Returns:
        Same shape, 0 where the mask is false.
    """
    zero = torch.zeros_like(values)
    if int(mask.sum()) < 2:
        return torch.where(mask, values, zero)
    centred = values - masked_mean(values, mask)
    variance = masked_mean(centred.square(), mask)
    return torch.where(mask, centred * torch.rsqrt(variance + _EPSILON), zero)
