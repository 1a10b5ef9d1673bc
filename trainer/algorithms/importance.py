"""Correction for a rollout engine whose probabilities are not quite the trainer's."""

from __future__ import annotations

import torch
from torch import Tensor

_MAX_LOG_RATIO = 20.0


def truncated_importance(
    old_logprobs: Tensor, rollout_logprobs: Tensor, response_mask: Tensor, *, threshold: float
) -> Tensor:
    """Token weights of truncated importance sampling (Ionides 2008; for engines: Yao et al. 2025).

    `w_t = min(exp(old_logprobs - rollout_logprobs), threshold)`: samples come from the engine, the loss is meant for
    the policy before the update. The weight carries no gradient.

    Args:
        old_logprobs: `[batch, time]`, recomputed by the trainer before the update (nats).
        rollout_logprobs: `[batch, time]`, by the engine (nats).
        response_mask: `[batch, time]`, boolean.
        threshold: Largest weight; below 1 it scales the whole loss down.

    Returns:
        `[batch, time]`, 1 where the mask is false.
    """
    log_ratio = torch.where(response_mask, old_logprobs - rollout_logprobs, torch.zeros_like(old_logprobs)).detach()
    weights = log_ratio.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp().clamp(max=threshold)
    return torch.where(response_mask, weights, torch.ones_like(weights))
