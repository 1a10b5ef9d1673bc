"""The formulas that a training step uses, in one place where another algorithm (or a test) can swap them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from trainer.algorithms import (
    CRITIC_ESTIMATORS,
    GROUP_ESTIMATORS,
    PAIR_LOSSES,
    clipped_policy_loss,
    clipped_value_loss,
    kl_penalised_rewards,
    kto_loss,
)

Advantages = Callable[..., tuple[Tensor, Tensor]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Mathematics:
    """The formulas of a run.

    Attributes:
        token_rewards: Scores and KL to token rewards (see `kl_penalised_rewards`).
        advantages: Token rewards and values to advantages and returns (see `gae`).
        policy_loss: See `clipped_policy_loss`.
        value_loss: See `clipped_value_loss`.
        pair_losses: Losses on pairs by name (see `dpo_loss`).
        kto_loss: See `kto_loss`.
    """

    token_rewards: Callable[..., Tensor]
    advantages: Advantages
    policy_loss: Callable[..., tuple[Tensor, Tensor, Tensor]]
    value_loss: Callable[..., tuple[Tensor, Tensor]]
    pair_losses: Mapping[str, Callable[..., Tensor]]
    kto_loss: Callable[..., Tensor]


def ppo_mathematics(adv_estimator: str, *, group_size: int = 1) -> Mathematics:
    """PPO's formulas with the advantage estimator named.

    Args:
        adv_estimator: A key of `CRITIC_ESTIMATORS` or `GROUP_ESTIMATORS`.
        group_size: Responses per prompt, for the estimators that compare them.
    """
    if adv_estimator in CRITIC_ESTIMATORS:
        advantages = CRITIC_ESTIMATORS[adv_estimator]
    else:
        advantages = _without_critic(GROUP_ESTIMATORS[adv_estimator], group_size)
    return Mathematics(
        token_rewards=kl_penalised_rewards,
        advantages=advantages,
        policy_loss=clipped_policy_loss,
        value_loss=clipped_value_loss,
        pair_losses=PAIR_LOSSES,
        kto_loss=kto_loss,
    )


def _without_critic(estimator: Callable[..., Tensor], group_size: int) -> Advantages:
    """An estimator that reads no values, called like one that does; its returns are its advantages."""

    def advantages(
        rewards: Tensor, values: Tensor, response_mask: Tensor, last_values: Tensor, *, gamma: float, lam: float
    ) -> tuple[Tensor, Tensor]:
        del values, last_values, lam
        result = estimator(rewards, response_mask, group_size=group_size, gamma=gamma)
        return result, result

    return advantages
