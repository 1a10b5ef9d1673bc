"""From one score per response to one reward per token."""

from __future__ import annotations

import torch
from torch import Tensor


def kl_penalised_rewards(scores: Tensor, kl: Tensor, response_mask: Tensor, *, kl_coef: float) -> Tensor:
    """Token rewards with the KL penalty (Ziegler et al. 2019, arXiv:1909.08593, equation 2, spread over the tokens).

    `r_t = -kl_coef * kl_t`, plus the score at the last valid token. The last token is found through the mask, so a
    response shorter than the padding keeps its score. A response without a valid token has no place for its score.

    Args:
        scores: `[batch]`, reward of each response.
        kl: `[batch, time]`, KL of the actor to the reference per token (nats).
        response_mask: `[batch, time]`, boolean.
        kl_coef: Reward units per nat.

    Returns:
        `[batch, time]`, 0 where the mask is false.
    """
    rewards = torch.where(response_mask, -kl_coef * kl, torch.zeros_like(kl))
    positions = torch.arange(kl.shape[1], device=kl.device)
    last = torch.where(response_mask, positions, -1).max(dim=1).values
    is_last = positions[None, :] == last[:, None]
    return rewards + torch.where(is_last, scores[:, None].to(kl.dtype), torch.zeros_like(kl))
