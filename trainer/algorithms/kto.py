"""Kahneman-Tversky optimisation: learning from single responses that are good or bad (arXiv:2402.01306)."""

from __future__ import annotations

import torch
from torch import Tensor


def kl_baseline(total: Tensor, count: int) -> Tensor:
    """The reference point z0 (Ethayarajh et al. 2024, arXiv:2402.01306, section 4.1), `max(0, mean h(y'))`.

    `h(y') = log pi(y' | x) - log pi_ref(y' | x)` for responses y' that belong to other prompts: what the policy gained
    on anything at all, a biased but cheap estimate of its KL to the reference. It carries no gradient.

    Args:
        total: Sum of `h(y')` over the mini-batch of all ranks, a scalar (nats).
        count: Number of terms in it (>= 1).

    Returns:
        A scalar, nats per response, never negative.
    """
    return (total / count).clamp(min=0.0).detach()


def kto_loss(
    log_ratios: Tensor,
    desirable: Tensor,
    baseline: Tensor,
    *,
    beta: float,
    desirable_weight: float,
    undesirable_weight: float,
) -> Tensor:
    """The KTO loss (arXiv:2402.01306, equations 7 and 8), summed over responses.

    `lambda_D * (1 - sigmoid(beta * (h - z0)))` for a desirable response, `lambda_U * (1 - sigmoid(beta * (z0 - h)))`
    for an undesirable one. A sum: the caller divides by the responses of the whole mini-batch.

    Args:
        log_ratios: `[batch]`, h of whole responses (nats); carries the gradient.
        desirable: `[batch]`, boolean.
        baseline: z0, a scalar (see `kl_baseline`).
        beta: Strength of the pull to the reference (reward units per nat, > 0).
        desirable_weight: lambda_D.
        undesirable_weight: lambda_U. The paper wants lambda_D * n_D / (lambda_U * n_U) between 1 and 4/3.

    Returns:
        The summed loss, a scalar.
    """
    gain = beta * (log_ratios - baseline)
    good = desirable_weight * torch.sigmoid(-gain)
    bad = undesirable_weight * torch.sigmoid(gain)
    return torch.where(desirable, good, bad).sum()
