"""The losses of one micro-batch, summed over its tokens, with what is worth knowing beside them."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from trainer.algorithms import KL_LOSSES, kl_k3, masked_sum
from trainer.loop.experience import Experience, Targets
from trainer.loop.forward import response_logprobs, response_values
from trainer.loop.micro_batches import MicroBatch
from trainer.loop.run import Run


def actor_loss(run: Run, experience: Experience, targets: Targets, micro: MicroBatch) -> dict[str, Tensor]:
    """Policy loss, minus the entropy bonus, plus the KL loss, of a micro-batch.

    Args:
        run: Reads the actor, the formulas and the configuration.
        experience: The global batch.
        targets: Its advantages.
        micro: The rows.

    Returns:
        Sums over tokens by metric; the loss comes first and carries the gradient.
    """
    algorithm, length = run.config.algorithm, experience.response_mask.shape[1]
    mask, old = micro.responses(targets.mask), micro.responses(experience.old_logprobs)
    logprobs, entropy = response_logprobs(
        run.actor,
        micro.sequences(experience.tokens, length),
        micro.sequences(experience.attention_mask, length),
        micro.response,
        run.config.rollout.temperature,
        entropy=targets.measures or algorithm.entropy_coeff != 0,
        remove_padding=run.config.trainer.use_remove_padding,
    )
    if targets.measures:
        old = logprobs.detach()
        experience.old_logprobs[micro.rows, : micro.response] = old
        experience.entropy[micro.rows, : micro.response] = cast(Tensor, entropy).detach()
    weights = None if targets.response_weights is None else targets.response_weights[micro.rows]
    importance = None if targets.importance is None else micro.responses(targets.importance)
    high = algorithm.clip_ratio if algorithm.clip_ratio_high is None else algorithm.clip_ratio_high
    loss, clipped, dual_clipped = run.mathematics.policy_loss(
        logprobs,
        old,
        micro.responses(targets.advantages),
        mask,
        clip_low=algorithm.clip_ratio,
        clip_high=high,
        clip_c=algorithm.clip_ratio_c,
        weights=_product(weights, importance),
    )
    sums = {"actor/clip_fraction": clipped, "kl/old_new": masked_sum(kl_k3(old, logprobs.detach()), mask)}
    if algorithm.clip_ratio_c is not None:
        sums["actor/dual_clip_fraction"] = dual_clipped
    if importance is not None:
        sums["actor/importance_mean"] = masked_sum(importance, mask)
    if entropy is not None and algorithm.entropy_coeff:
        loss = loss - algorithm.entropy_coeff * _weighted_sum(entropy, mask, weights)
    if algorithm.kl_loss_coef:
        ref = micro.responses(experience.ref_logprobs)
        # Masked places are made equal first: a mask after the fact does not keep a NaN out of the gradient.
        kl = KL_LOSSES[algorithm.kl_loss_type](torch.where(mask, logprobs, ref), ref)
        kl_loss = _weighted_sum(kl, mask, weights)
        loss = loss + algorithm.kl_loss_coef * kl_loss
        sums["actor/kl_loss"] = kl_loss
    return {"actor/loss": loss, **sums}


def critic_loss(run: Run, experience: Experience, targets: Targets, micro: MicroBatch) -> dict[str, Tensor]:
    """The value loss of a micro-batch; arguments and result as in `actor_loss`."""
    assert run.critic is not None
    length = experience.response_mask.shape[1]
    values = response_values(
        run.critic,
        micro.sequences(experience.tokens, length),
        micro.sequences(experience.attention_mask, length),
        micro.response,
        remove_padding=run.config.trainer.use_remove_padding,
    )
    loss, clipped = run.mathematics.value_loss(
        values[:, :-1],
        micro.responses(experience.values),
        micro.responses(targets.returns),
        micro.responses(targets.mask),
        cliprange=run.config.algorithm.cliprange_value,
        weights=None if targets.response_weights is None else targets.response_weights[micro.rows],
    )
    return {"critic/loss": loss, "critic/clip_fraction": clipped}


def _product(weights: Tensor | None, importance: Tensor | None) -> Tensor | None:
    if weights is None or importance is None:
        return importance if weights is None else weights
    return weights * importance


def _weighted_sum(values: Tensor, mask: Tensor, weights: Tensor | None) -> Tensor:
    return masked_sum(values if weights is None else values * weights, mask)
