"""From experience to advantages and returns, over the global batch."""

from __future__ import annotations

import torch

from trainer.algorithms import kl_k1, masked_whiten, overlong_penalty, response_weights, truncated_importance
from trainer.config import AlgorithmConfig
from trainer.loop.experience import Experience, Targets
from trainer.loop.mathematics import Mathematics


def compute_targets(
    experience: Experience, config: AlgorithmConfig, kl_coef: float, mathematics: Mathematics
) -> Targets:
    """Advantages, returns and weights of the whole batch of all ranks.

    Args:
        experience: The global batch.
        config: Discounts, truncation policy, whitening and weights.
        kl_coef: Coefficient of the KL penalty in this step.
        mathematics: The formulas.
    """
    mask, scores = experience.response_mask, experience.scores
    kl = kl_k1(experience.old_logprobs, experience.ref_logprobs)
    if config.truncation_penalty:
        scores = scores - overlong_penalty(
            mask, experience.truncated, penalty=config.truncation_penalty, buffer=config.overlong_buffer
        )
    rewards = mathematics.token_rewards(scores, kl, mask, kl_coef=kl_coef)
    last_values = torch.zeros_like(scores)
    if config.truncation == "bootstrap":
        # A truncated response fills all places, so the state after its last token is the last column.
        last_values = torch.where(experience.truncated, experience.values[:, -1], last_values)
    advantages, returns = mathematics.advantages(
        rewards, experience.values[:, :-1], mask, last_values, gamma=config.gamma, lam=config.lam
    )
    if config.truncation == "mask":
        mask = mask & ~experience.truncated[:, None]
    if config.whiten_advantages:
        advantages = masked_whiten(advantages, mask)
    importance = None
    if config.rollout_is_threshold is not None:
        importance = truncated_importance(
            experience.old_logprobs, experience.rollout_logprobs, mask, threshold=config.rollout_is_threshold
        )
    return Targets(
        advantages=advantages,
        returns=returns,
        mask=mask,
        response_weights=response_weights(mask, config.loss_agg_mode),
        importance=importance,
    )
