"""From experience to advantages and returns, over the global batch."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.algorithms import (
    RewardNormalizer,
    kl_k1,
    masked_whiten,
    overlong_penalty,
    response_weights,
    truncated_importance,
)
from trainer.config import AlgorithmConfig, Config
from trainer.loop.experience import Experience, Targets
from trainer.loop.mathematics import Mathematics


def normalized_scores(
    experience: Experience, config: Config, normalizer: RewardNormalizer
) -> tuple[Tensor, RewardNormalizer]:
    """What the responses count for, after `algorithm.truncation_penalty` and `reward.normalize`.

    Args:
        experience: The global batch.
        config: The configuration.
        normalizer: What is known of the scores of the steps before; this batch is counted before it is measured.

    Returns:
        The scores, `[B]`, and the normaliser after this batch (the same one where nothing is normalised).
    """
    scores, algorithm, kind = experience.scores, config.algorithm, config.reward.normalize
    if algorithm.truncation_penalty:
        scores = scores - overlong_penalty(
            experience.response_mask,
            experience.truncated,
            penalty=algorithm.truncation_penalty,
            buffer=algorithm.overlong_buffer,
        )
    if kind == "none":
        return scores, normalizer
    normalizer = normalizer.updated(scores)
    return normalizer.normalized(scores, centered=kind == "standardize"), normalizer


def compute_targets(
    experience: Experience, scores: Tensor, config: AlgorithmConfig, kl_coef: float, mathematics: Mathematics
) -> Targets:
    """Advantages, returns and weights of the whole batch of all ranks.

    Args:
        experience: The global batch.
        scores: What its responses count for, `[B]` (see `normalized_scores`).
        config: Discounts, truncation policy, whitening and weights.
        kl_coef: Coefficient of the KL penalty in this step (units of the scores per nat).
        mathematics: The formulas.
    """
    mask = experience.response_mask
    kl = kl_k1(experience.old_logprobs, experience.ref_logprobs)
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
