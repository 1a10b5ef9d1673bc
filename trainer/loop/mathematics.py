"""The formulas that a training step uses, in one place where another algorithm (or a test) can swap them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from trainer.algorithms import (
    ADVANTAGE_ESTIMATORS,
    clipped_policy_loss,
    clipped_value_loss,
    kl_penalised_rewards,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mathematics:
    """The formulas of a run.

    Attributes:
        token_rewards: Scores and KL to token rewards (see `kl_penalised_rewards`).
        advantages: Token rewards and values to advantages and returns (see `gae`).
        policy_loss: See `clipped_policy_loss`.
        value_loss: See `clipped_value_loss`.
    """

    token_rewards: Callable[..., Tensor]
    advantages: Callable[..., tuple[Tensor, Tensor]]
    policy_loss: Callable[..., tuple[Tensor, Tensor]]
    value_loss: Callable[..., tuple[Tensor, Tensor]]


def ppo_mathematics(adv_estimator: str) -> Mathematics:
    """PPO's formulas with the advantage estimator named."""
    return Mathematics(
        token_rewards=kl_penalised_rewards,
        advantages=ADVANTAGE_ESTIMATORS[adv_estimator],
        policy_loss=clipped_policy_loss,
        value_loss=clipped_value_loss,
    )
