"""Generalised advantage estimation for responses of different length."""

from __future__ import annotations

import torch
from torch import Tensor


def gae(
    rewards: Tensor, values: Tensor, response_mask: Tensor, last_values: Tensor, *, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation (Schulman et al. 2015, arXiv:1506.02438, equations 11, 12 and 16).

    With `delta_t = r_t + gamma * V(s_{t+1}) - V(s_t)` the advantage is
    `A_t = delta_t + gamma * lam * A_{t+1}`, computed backwards. At masked positions both `V(s_{t+1})` and `A_{t+1}` are
    carried forward unchanged, so padding (at the end or between valid tokens) has no influence.

    Args:
        rewards: `[batch, time]`, reward of each response token.
        values: `[batch, time]`, value of the state before each token.
        response_mask: `[batch, time]`, boolean.
        last_values: `[batch]`, value of the state after the last valid token: 0 where the response is terminal.
        gamma: Discount per token.
        lam: The trace parameter.

    Returns:
        Advantages and returns (`advantages + values`), each `[batch, time]`, 0 where the mask is false.
    """
    zero = torch.zeros_like(values)
    rewards = torch.where(response_mask, rewards, zero)
    values = torch.where(response_mask, values, zero)
    next_value = last_values.to(values.dtype)
    next_advantage = torch.zeros_like(next_value)
    advantages = torch.zeros_like(values)
    for step in range(values.shape[1] - 1, -1, -1):
        valid = response_mask[:, step]
        delta = rewards[:, step] + gamma * next_value - values[:, step]
        next_advantage = torch.where(valid, delta + gamma * lam * next_advantage, next_advantage)
        next_value = torch.where(valid, values[:, step], next_value)
        advantages[:, step] = torch.where(valid, next_advantage, zero[:, step])
    return advantages, torch.where(response_mask, advantages + values, zero)
