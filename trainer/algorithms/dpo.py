"""Losses on pairs of a preferred and a rejected response to one prompt.

All want log-ratios `h(y) = log pi(y | x) - log pi_ref(y | x)` of whole responses and return sums over the pairs: the
caller divides by the pairs of the whole mini-batch, so that the gradient does not depend on how that is split.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def dpo_loss(chosen: Tensor, rejected: Tensor, *, beta: float, label_smoothing: float = 0.0) -> Tensor:
    """Direct preference optimisation (Rafailov et al. 2023, arXiv:2305.18290, equation 7), summed over pairs.

    `loss = -(1 - e) * log sigmoid(beta * d) - e * log sigmoid(-beta * d)` with `d = h(chosen) - h(rejected)`. With
    `e > 0` a share e of the preferences is taken to be the wrong way round (conservative DPO, Mitchell 2023,
    https://ericmitchell.ai/cdpo.pdf, equation 3): `beta * d` is then drawn to `log((1 - e) / e)` and not to infinity.

    Args:
        chosen: `[batch]`, log-ratios of the preferred responses (nats); carries the gradient.
        rejected: `[batch]`, of the rejected ones.
        beta: Strength of the pull to the reference (reward units per nat, > 0).
        label_smoothing: e, from 0 to below 0.5.

    Returns:
        The summed loss, a scalar.
    """
    margin = beta * (chosen - rejected)
    return -((1.0 - label_smoothing) * logsigmoid(margin) + label_smoothing * logsigmoid(-margin)).sum()


def ipo_loss(chosen: Tensor, rejected: Tensor, *, beta: float, label_smoothing: float = 0.0) -> Tensor:
    """Identity preference optimisation (Azar et al. 2023, arXiv:2310.12036, equation 17), summed over pairs.

    `loss = (h(chosen) - h(rejected) - 1 / (2 * beta))^2`: the margin has a goal, so that pairs which are told apart
    for certain do not pull for ever.

    Args:
        chosen: `[batch]`, log-ratios of the preferred responses (nats, or nats per token); carries the gradient.
        rejected: `[batch]`, of the rejected ones.
        beta: The paper's tau (> 0).
        label_smoothing: Not read; 0.

    Returns:
        The summed loss, a scalar.
    """
    del label_smoothing
    return (chosen - rejected - 1.0 / (2.0 * beta)).square().sum()


def num_ranked_right(better: Tensor, worse: Tensor) -> Tensor:
    """How often the better one is ahead, a scalar; a tie counts half, as for somebody who guesses.

    Args:
        better: Any shape.
        worse: Same shape, or one that spreads to it.
    """
    return (better > worse).sum() + 0.5 * torch.eq(better, worse).sum()
