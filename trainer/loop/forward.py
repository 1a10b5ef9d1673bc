"""Forward passes over prompt and response, read at the response tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.algorithms import logprobs_and_entropy
from trainer.loop.experience import position_ids
from trainer.loop.shared_prompts import prompt_groups, shared_logprobs
from trainer.loop.unpadded import unpadded_logprobs, unpadded_values


def response_logprobs(
    model: torch.nn.Module,
    tokens: Tensor,
    attention_mask: Tensor,
    length: int,
    temperature: float,
    *,
    entropy: bool,
    remove_padding: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Log-probabilities of the last `length` tokens, and the entropy there when asked.

    Args:
        model: A causal language model.
        tokens: `[batch, prompt + length]`.
        attention_mask: Same shape.
        length: Places of the response.
        temperature: The sampling temperature.
        entropy: Compute the entropy too.
        remove_padding: Put the sequences end to end; the model must allow it (see `allow_unpadded`).

    Returns:
        `[batch, length]` each (nats).
    """
    if remove_padding:
        return unpadded_logprobs(model, tokens, attention_mask, length, temperature, entropy=entropy)
    groups = prompt_groups(model, tokens, attention_mask, length)
    if groups is not None:
        return shared_logprobs(model, tokens, attention_mask, length, temperature, groups, entropy=entropy)
    logits = model(
        input_ids=tokens,
        attention_mask=attention_mask,
        position_ids=position_ids(attention_mask),
        use_cache=False,
        logits_to_keep=length + 1,
    ).logits  # the logits at a place belong to the next token; the last place has none
    return logprobs_and_entropy(logits, tokens[:, -length:], temperature=temperature, entropy=entropy, reuse=True)


def response_values(
    critic: torch.nn.Module, tokens: Tensor, attention_mask: Tensor, length: int, *, remove_padding: bool = False
) -> Tensor:
    """Values of the states before each of the last `length` tokens and after the last, `[batch, length + 1]`."""
    if remove_padding:
        return unpadded_values(critic, tokens, attention_mask, length)
    values: Tensor = critic(tokens, attention_mask, position_ids(attention_mask))
    return values[:, -(length + 1) :].squeeze(-1).float()
