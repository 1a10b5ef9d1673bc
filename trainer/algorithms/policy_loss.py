"""PPO's clipped surrogate objective."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.algorithms.masked import masked_sum

_MAX_LOG_RATIO = 20.0


def clipped_policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    *,
    clip_low: float,
    clip_high: float,
) -> tuple[Tensor, Tensor]:
    """The clipped surrogate (Schulman et al. 2017, arXiv:1707.06347, equation 7), negated and summed over tokens.

    `ratio = exp(logprobs - old_logprobs)`;
    `loss = sum(max(-A * ratio, -A * clip(ratio, 1 - clip_low, 1 + clip_high)))`.
    A sum, not a mean: the caller divides by the token count of the whole mini-batch, so that the gradient does not
    depend on how the mini-batch is split.

    Args:
        logprobs: `[batch, time]`, under the policy being trained; carries the gradient.
        old_logprobs: `[batch, time]`, under the policy before the update.
        advantages: `[batch, time]`.
        response_mask: `[batch, time]`, boolean.
        clip_low: How far the ratio may fall below 1.
        clip_high: How far it may rise above 1.

    Returns:
        The summed loss and the number of clipped tokens, scalars.
    """
    zero = torch.zeros_like(old_logprobs)
    log_ratio = torch.where(response_mask, logprobs - old_logprobs, zero)
    advantages = torch.where(response_mask, advantages, zero)
    ratio = log_ratio.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()
    unclipped = -advantages * ratio
    clipped = -advantages * ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    loss = masked_sum(torch.maximum(unclipped, clipped), response_mask)
    return loss, ((clipped > unclipped) & response_mask).sum()
