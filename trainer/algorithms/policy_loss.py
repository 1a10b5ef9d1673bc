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
    clip_c: float | None = None,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The clipped surrogate (Schulman et al. 2017, arXiv:1707.06347, equation 7), negated and summed over tokens.

    `ratio = exp(logprobs - old_logprobs)`;
    `loss = sum(max(-A * ratio, -A * clip(ratio, 1 - clip_low, 1 + clip_high)))`.
    With `clip_c` a token of negative advantage loses at most `-clip_c * A` (dual clip, Ye et al. 2020,
    arXiv:1912.09729, equation 5); beyond that its gradient is 0.
    A sum, not a mean: the caller divides by the denominator of the whole mini-batch, so that the gradient does not
    depend on how the mini-batch is split.

    Args:
        logprobs: `[batch, time]`, under the policy being trained; carries the gradient.
        old_logprobs: `[batch, time]`, under the policy before the update.
        advantages: `[batch, time]`.
        response_mask: `[batch, time]`, boolean.
        clip_low: How far the ratio may fall below 1.
        clip_high: How far it may rise above 1; more than `clip_low` is DAPO's clip-higher (arXiv:2503.14476).
        clip_c: The dual clip, above `1 + clip_high`; None for none.
        weights: `[batch, time]` or `[batch, 1]`, multiplied to the loss of each token; None for 1.

    Returns:
        The summed loss, the number of tokens clipped by the ratio and by the dual clip, scalars.
    """
    zero = torch.zeros_like(old_logprobs)
    log_ratio = torch.where(response_mask, logprobs - old_logprobs, zero)
    advantages = torch.where(response_mask, advantages, zero)
    ratio = log_ratio.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()
    unclipped = -advantages * ratio
    clipped = -advantages * ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    loss = torch.maximum(unclipped, clipped)
    dual_clipped = response_mask.new_zeros((), dtype=torch.int64)
    if clip_c is not None:
        most = -advantages * clip_c
        dual = (advantages < 0) & (loss > most)
        loss = torch.where(dual, most, loss)
        dual_clipped = (dual & response_mask).sum()
    if weights is not None:
        loss = loss * weights
    return masked_sum(loss, response_mask), ((clipped > unclipped) & response_mask).sum(), dual_clipped
