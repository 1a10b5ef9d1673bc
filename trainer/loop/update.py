"""The second half of a step: PPO epochs over mini-batches, for actor and critic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from trainer.algorithms import kl_k3, masked_sum
from trainer.distributed import whole
from trainer.loop.experience import Experience, Targets
from trainer.loop.forward import response_logprobs, response_values
from trainer.loop.run import Run
from trainer.seeds import derived_seed


@dataclass(kw_only=True, slots=True)
class UpdateStats:
    """What the updates of one step measured, one entry per update.

    Attributes:
        actor_loss: Mean over the mini-batch's tokens.
        critic_loss: Mean over the mini-batch's tokens.
        actor_grad_norm: Before clipping.
        critic_grad_norm: Before clipping.
        actor_clip_fraction: Share of tokens.
        critic_clip_fraction: Share of tokens.
        kl_old_new: Nats per token.
        skipped: Updates left out because loss or gradient was not finite.
    """

    actor_loss: list[float] = field(default_factory=list)
    critic_loss: list[float] = field(default_factory=list)
    actor_grad_norm: list[float] = field(default_factory=list)
    critic_grad_norm: list[float] = field(default_factory=list)
    actor_clip_fraction: list[float] = field(default_factory=list)
    critic_clip_fraction: list[float] = field(default_factory=list)
    kl_old_new: list[float] = field(default_factory=list)
    skipped: int = 0


def update(run: Run, experience: Experience, targets: Targets, step: int) -> UpdateStats:
    """Update actor and critic on the global batch; every rank takes its share of each mini-batch.

    An update whose loss or gradient is not finite is left out, for the network concerned, and counted.
    """
    stats = UpdateStats()
    for rows in mini_batches(run, len(experience.tokens), step):
        num_tokens = targets.mask[rows].sum().clamp(min=1)
        share = rows.chunk(run.world.size)[run.world.rank]
        totals = torch.zeros(5, device=run.world.device)
        for micro in share.split(run.config.trainer.ppo_micro_batch_size_per_gpu):
            totals += accumulate_gradients(run, experience, targets, micro, num_tokens)
        actor_loss, actor_clipped, kl, critic_loss, critic_clipped = (run.world.sum(totals) / num_tokens).tolist()
        actor_norm = _apply(run.actor, run.actor_optimizer, actor_loss, run.config.trainer.grad_clip)
        critic_norm = _apply(run.critic, run.critic_optimizer, critic_loss, run.config.trainer.grad_clip)
        stats.actor_loss.append(actor_loss)
        stats.critic_loss.append(critic_loss)
        stats.actor_grad_norm.append(actor_norm)
        stats.critic_grad_norm.append(critic_norm)
        stats.actor_clip_fraction.append(actor_clipped)
        stats.critic_clip_fraction.append(critic_clipped)
        stats.kl_old_new.append(kl)
        stats.skipped += not all(map(math.isfinite, (actor_loss, critic_loss, actor_norm, critic_norm)))
    return stats


def mini_batches(run: Run, num_responses: int, step: int) -> Iterator[Tensor]:
    """The rows of each mini-batch: a fresh permutation per PPO epoch, the same on every rank."""
    size = run.config.trainer.mini_batch_size * run.config.rollout.n
    for epoch in range(run.config.trainer.ppo_epochs):
        generator = torch.Generator().manual_seed(derived_seed("mini-batches", run.config.trainer.seed, step, epoch))
        yield from torch.randperm(num_responses, generator=generator).to(run.world.device).split(size)


def accumulate_gradients(
    run: Run, experience: Experience, targets: Targets, rows: Tensor, num_tokens: Tensor
) -> Tensor:
    """Forward and backward over some rows, for both networks.

    Sums over tokens are divided by the tokens of the whole mini-batch, and multiplied by the number of ranks because
    FSDP averages over them: the gradient does not depend on the split into micro-batches or ranks.

    Args:
        run: The run.
        experience: The global batch.
        targets: Its advantages and returns.
        rows: The micro-batch.
        num_tokens: Valid tokens of the mini-batch over all ranks.

    Returns:
        `[5]`, sums over this rank's tokens: policy loss, clipped ratios, KL old to new, value loss, clipped values.
    """
    algorithm = run.config.algorithm
    tokens, attention_mask, mask = experience.tokens[rows], experience.attention_mask[rows], targets.mask[rows]
    length = mask.shape[1]
    scale = run.world.size / num_tokens
    logprobs, entropy = response_logprobs(
        run.actor, tokens, attention_mask, length, run.config.rollout.temperature, entropy=algorithm.entropy_coeff != 0
    )
    old = experience.old_logprobs[rows]
    high = algorithm.clip_ratio if algorithm.clip_ratio_high is None else algorithm.clip_ratio_high
    policy_loss, clipped = run.mathematics.policy_loss(
        logprobs, old, targets.advantages[rows], mask, clip_low=algorithm.clip_ratio, clip_high=high
    )
    if entropy is not None:
        policy_loss = policy_loss - algorithm.entropy_coeff * masked_sum(entropy, mask)
    (policy_loss * scale).backward()
    values = response_values(run.critic, tokens, attention_mask, length)[:, :-1]
    value_loss, values_clipped = run.mathematics.value_loss(
        values, experience.values[rows, :-1], targets.returns[rows], mask, cliprange=algorithm.cliprange_value
    )
    (value_loss * scale).backward()
    kl = masked_sum(kl_k3(old, logprobs.detach()), mask)
    sums = (policy_loss.detach(), clipped, kl, value_loss.detach(), values_clipped)
    return torch.stack([part.float() for part in sums])


def _apply(model: torch.nn.Module, optimizer: torch.optim.Optimizer, loss: float, grad_clip: float) -> float:
    """Clip, step and clear; without the step when loss or gradient is not finite. Returns the norm before clipping."""
    norm = float(whole(torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)))
    if math.isfinite(loss) and math.isfinite(norm):
        optimizer.step()
    optimizer.zero_grad()
    return norm
