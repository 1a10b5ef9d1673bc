"""Advantages without a critic: the responses to one prompt are each other's baseline.

All functions want the responses to a prompt in neighbouring rows, `group_size` of them. A response's score is the sum
of its token rewards (KL penalty included); a response without a valid token scores 0. A group of one has no baseline:
its mean counts as 0 and its deviation as 1, so the score itself is the advantage, as in plain REINFORCE.
"""

from __future__ import annotations

import torch
from torch import Tensor

_EPSILON = 1e-6


def grpo(rewards: Tensor, response_mask: Tensor, *, group_size: int, gamma: float = 1.0) -> Tensor:
    """Group relative advantages (Shao et al. 2024, arXiv:2402.03300, section 4.1.2).

    `A_i = (R_i - mean(R)) / (std(R) + 1e-6)` over the group, with the unbiased deviation, for every token of response
    i. A group whose scores are all equal says nothing: its advantages are 0.

    Args:
        rewards: `[batch, time]`, reward of each response token.
        response_mask: `[batch, time]`, boolean.
        group_size: Responses per prompt; must divide the batch.
        gamma: Not read: a response is one action.

    Returns:
        `[batch, time]`, 0 where the mask is false.
    """
    del gamma
    groups = _groups(rewards, response_mask, group_size)
    if group_size > 1:
        spread = groups.std(dim=1, keepdim=True)
        centred = groups - groups.mean(dim=1, keepdim=True)
        # Rounding leaves a mean a little off equal scores; the division would blow that up.
        varied = groups.amax(dim=1, keepdim=True) > groups.amin(dim=1, keepdim=True)
        groups = torch.where(varied, centred / (spread + _EPSILON), torch.zeros_like(groups))
    return _per_token(groups, response_mask)


def dr_grpo(rewards: Tensor, response_mask: Tensor, *, group_size: int, gamma: float = 1.0) -> Tensor:
    """GRPO without the division (Liu et al. 2025, arXiv:2503.20783, section 3.2): `A_i = R_i - mean(R)`.

    Dividing by the deviation weighs prompts by how much their responses agree; this does not. Arguments and result as
    in `grpo`.
    """
    del gamma
    return _per_token(_centred(_groups(rewards, response_mask, group_size)), response_mask)


def rloo(rewards: Tensor, response_mask: Tensor, *, group_size: int, gamma: float = 1.0) -> Tensor:
    """Leave-one-out advantages (Ahmadian et al. 2024, arXiv:2402.14740, equation 8).

    `A_i = R_i - mean over j != i of R_j`, which is `n / (n - 1) * (R_i - mean(R))`. Arguments and result as in `grpo`.
    """
    del gamma
    groups = _groups(rewards, response_mask, group_size)
    if group_size > 1:
        groups = _centred(groups) * (group_size / (group_size - 1))
    return _per_token(groups, response_mask)


def reinforce_pp(rewards: Tensor, response_mask: Tensor, *, group_size: int, gamma: float = 1.0) -> Tensor:
    """REINFORCE++ (Hu et al. 2025, arXiv:2501.03262): the return of each token, `G_t = r_t + gamma * G_{t+1}`.

    Masked positions are passed over. The method whitens the result over the global batch; the caller does.

    Args:
        rewards: `[batch, time]`, reward of each response token.
        response_mask: `[batch, time]`, boolean.
        group_size: Not read: there are no groups.
        gamma: Discount per token.

    Returns:
        `[batch, time]`, 0 where the mask is false.
    """
    del group_size
    zero = torch.zeros_like(rewards)
    rewards = torch.where(response_mask, rewards, zero)
    running = torch.zeros_like(rewards[:, 0])
    returns = torch.zeros_like(rewards)
    for step in range(rewards.shape[1] - 1, -1, -1):
        valid = response_mask[:, step]
        running = torch.where(valid, rewards[:, step] + gamma * running, running)
        returns[:, step] = torch.where(valid, running, zero[:, step])
    return returns


def reinforce_pp_baseline(rewards: Tensor, response_mask: Tensor, *, group_size: int, gamma: float = 1.0) -> Tensor:
    """REINFORCE++ with the group's mean as baseline (arXiv:2501.03262): `R_i - mean(R)`, whitened by the caller.

    The formula is that of `dr_grpo`; the methods differ in the whitening. Arguments and result as in `grpo`.
    """
    return dr_grpo(rewards, response_mask, group_size=group_size, gamma=gamma)


def _groups(rewards: Tensor, response_mask: Tensor, group_size: int) -> Tensor:
    """The scores of the responses, `[prompts, group_size]`."""
    if len(rewards) % group_size:
        raise ValueError(f"{len(rewards)} responses do not make groups of {group_size}")
    return torch.where(response_mask, rewards, torch.zeros_like(rewards)).sum(dim=1).view(-1, group_size)


def _centred(groups: Tensor) -> Tensor:
    return groups if groups.shape[1] == 1 else groups - groups.mean(dim=1, keepdim=True)


def _per_token(groups: Tensor, response_mask: Tensor) -> Tensor:
    spread = groups.reshape(-1, 1).expand_as(response_mask)
    return torch.where(response_mask, spread, torch.zeros_like(spread))
