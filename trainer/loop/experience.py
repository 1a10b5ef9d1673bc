"""What one rollout yields: the batch that advantages and updates are computed from."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from trainer.distributed import World


@dataclass(frozen=True, kw_only=True, slots=True)
class Experience:
    """Sampled responses with everything measured before the update. B responses, P prompt and T response places.

    Attributes:
        tokens: `[B, P + T]`, prompts padded on the left, responses on the right.
        attention_mask: `[B, P + T]`, 1 on prompt and response.
        response_mask: `[B, T]`, true up to and including the end token.
        rollout_logprobs: `[B, T]`, by the engine (nats).
        old_logprobs: `[B, T]`, recomputed by the actor before the update (nats).
        ref_logprobs: `[B, T]`, by the reference (nats).
        entropy: `[B, T]`, of the actor before the update (nats).
        values: `[B, T + 1]`, of the state before each token, and of the state after the last place; 0 without a critic.
        scores: `[B]`, rewards without the KL penalty.
        components: `[B, C]`, the values of the reward's components before their weights; C is 0 without any.
        truncated: `[B]`, true where the length limit ended the response.
    """

    tokens: Tensor
    attention_mask: Tensor
    response_mask: Tensor
    rollout_logprobs: Tensor
    old_logprobs: Tensor
    ref_logprobs: Tensor
    entropy: Tensor
    values: Tensor
    scores: Tensor
    components: Tensor
    truncated: Tensor

    def gathered(self, world: World) -> Experience:
        """The experience of all ranks, in the order of the prompts."""
        return Experience(**{item.name: _gather(world, getattr(self, item.name)) for item in fields(self)})

    def completed(self, world: World) -> Experience:
        """The same after an update that measured the actor: every rank wrote its own rows, the others are 0 there."""
        return replace(self, old_logprobs=world.sum(self.old_logprobs), entropy=world.sum(self.entropy))


@dataclass(frozen=True, kw_only=True, slots=True)
class Targets:
    """What the update aims at.

    Attributes:
        advantages: `[B, T]`.
        returns: `[B, T]`.
        mask: `[B, T]`, the tokens that count: the response mask, without masked-out truncated responses.
        response_weights: `[B, 1]`, weight of each response's tokens in all losses; None for 1.
        importance: `[B, T]`, weight of each token in the policy loss (see `truncated_importance`); None for 1.
        measures: The update's own forward pass is the first one with these weights, and writes `old_logprobs` and
            `entropy` into the experience (see `update_measures`).
    """

    advantages: Tensor
    returns: Tensor
    mask: Tensor
    response_weights: Tensor | None = None
    importance: Tensor | None = None
    measures: bool = False


def position_ids(attention_mask: Tensor) -> Tensor:
    """Positions that start at 0 on the first real token of each row, `[batch, time]`."""
    return (attention_mask.cumsum(dim=1) - 1).clamp(min=0)


def _gather(world: World, values: Tensor) -> Tensor:
    if not values.shape[-1]:  # nothing to exchange, and not every backend takes it
        return values.new_zeros(len(values) * world.size, 0)
    # Booleans travel as bytes: not every backend reduces or gathers them.
    return world.gather(values.to(torch.uint8)).bool() if values.dtype == torch.bool else world.gather(values)
