"""The critic's clipped regression and how well it explains the returns."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.algorithms.masked import masked_mean, masked_sum


def clipped_value_loss(
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    response_mask: Tensor,
    *,
    cliprange: float,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The clipped value loss (Schulman et al. 2015, arXiv:1506.02438, section 5, in the clipped form of PPO's code).

    `loss = 0.5 * sum(max((V - R)^2, (clip(V, V_old - cliprange, V_old + cliprange) - R)^2))`, summed over tokens.

    Args:
        values: `[batch, time]`, of the critic being trained; carries the gradient.
        old_values: `[batch, time]`, before the update.
        returns: `[batch, time]`.
        response_mask: `[batch, time]`, boolean.
        cliprange: How far a value may move from the old one (reward units).
        weights: `[batch, time]` or `[batch, 1]`, multiplied to the loss of each token; None for 1.

    Returns:
        The summed loss and the number of clipped tokens, scalars.
    """
    zero = torch.zeros_like(old_values)
    values, old_values, returns = (torch.where(response_mask, part, zero) for part in (values, old_values, returns))
    clipped_values = torch.minimum(torch.maximum(values, old_values - cliprange), old_values + cliprange)
    unclipped = (values - returns).square()
    clipped = (clipped_values - returns).square()
    loss = torch.maximum(unclipped, clipped)
    if weights is not None:
        loss = loss * weights
    return 0.5 * masked_sum(loss, response_mask), ((clipped > unclipped) & response_mask).sum()


def explained_variance(values: Tensor, returns: Tensor, response_mask: Tensor) -> Tensor:
    """`1 - Var(returns - values) / Var(returns)` over the valid tokens; 0 when the returns do not vary.

    Args:
        values: `[batch, time]`.
        returns: `[batch, time]`.
        response_mask: `[batch, time]`, boolean.

    Returns:
        A scalar, at most 1; 0 says as good as the mean, below 0 worse.
    """

    def variance(x: Tensor) -> Tensor:
        return masked_mean((x - masked_mean(x, response_mask)).square(), response_mask)

    spread = variance(returns)
    return torch.where(spread > 1e-12, 1.0 - variance(returns - values) / spread.clamp(min=1e-12), spread.new_zeros(()))
