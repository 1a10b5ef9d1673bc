"""Forward passes in which a prompt is computed once for all its responses.

The `rollout.n` responses to a prompt begin with the same tokens, and a causal model computes the same for them every
time. Here the distinct prompts of a micro-batch go through the model first; their keys and values are handed to every
response, which goes through it alone. Sums are taken in another order, nothing else changes: gradients flow back
through keys and values, and those of a prompt's responses add up there (prefix grouping: Liu et al. 2025,
arXiv:2506.05433).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.algorithms import logprobs_and_entropy
from trainer.loop.experience import position_ids

if TYPE_CHECKING:
    from transformers import PretrainedConfig

WORTHWHILE = {"cpu": 2**21, "cuda": 2**32}
"""Prompt tokens saved times the square of the hidden size that must come together: a second pass has its fixed cost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Groups:
    """Which rows of a micro-batch have the same prompt. B rows, U distinct prompts.

    Attributes:
        first: `[U]`, a row of each prompt.
        of_row: `[B]`, place of each row's prompt in `first`.
        prompt: Longest prompt (tokens).
        response: Longest response (tokens).
    """

    first: Tensor
    of_row: Tensor
    prompt: int
    response: int


def prompt_groups(
    model: torch.nn.Module, tokens: Tensor, attention_mask: Tensor, length: int, *, worthwhile: int | None = None
) -> Groups | None:
    """The rows with equal prompts, or None when nothing is gained or the model cannot go on from keys and values.

    Args:
        model: A causal language model.
        tokens: `[batch, prompt + length]`, prompts padded on the left, responses on the right.
        attention_mask: Same shape.
        length: Places of the response.
        worthwhile: What must be saved (see `WORTHWHILE`; None takes it by device).
    """
    config = _config(model)
    if config is None or not _goes_on(model, config):
        return None
    width = tokens.shape[1] - length
    least = WORTHWHILE.get(tokens.device.type, 2**32) if worthwhile is None else worthwhile
    least = max(1, least // config.get_text_config().hidden_size ** 2)
    if len(tokens) * width < least:
        return None
    prompts = tokens[:, :width].masked_fill(attention_mask[:, :width] == 0, -1).cpu().numpy()
    places: dict[bytes, int] = {}
    first: list[int] = []
    of_row: list[int] = []
    for row, prompt in enumerate(prompts):
        place = places.setdefault(prompt.tobytes(), len(first))
        if place == len(first):
            first.append(row)
        of_row.append(place)
    counts = [int(part.sum(dim=1).max()) for part in (attention_mask[:, :width], attention_mask[:, width:])]
    longest = max(1, counts[0])
    if (len(of_row) - len(first)) * longest < least:
        return None
    device = tokens.device
    return Groups(
        first=torch.tensor(first, device=device),
        of_row=torch.tensor(of_row, device=device),
        prompt=longest,
        response=max(1, counts[1]),
    )


def shared_logprobs(
    model: torch.nn.Module,
    tokens: Tensor,
    attention_mask: Tensor,
    length: int,
    temperature: float,
    groups: Groups,
    *,
    entropy: bool,
) -> tuple[Tensor, Tensor | None]:
    """As `response_logprobs`, with 0 beyond the longest response."""
    from transformers import DynamicCache

    width = tokens.shape[1] - length
    kept = slice(width - groups.prompt, width + groups.response)
    tokens, mask = tokens[:, kept], attention_mask[:, kept]
    positions = position_ids(mask)
    responses = tokens[:, groups.prompt :]
    cache = DynamicCache(config=_config(model))
    prompts = mask[groups.first, : groups.prompt]
    logits = model(
        input_ids=tokens[groups.first, : groups.prompt],
        attention_mask=prompts,
        position_ids=position_ids(prompts),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    ).logits.index_select(0, groups.of_row)
    parts = [logprobs_and_entropy(logits, responses[:, :1], temperature=temperature, entropy=entropy, reuse=True)]
    if groups.response > 1:
        cache.batch_select_indices(groups.of_row)
        logits = model(
            input_ids=responses[:, :-1],
            attention_mask=mask[:, :-1],
            position_ids=positions[:, groups.prompt : -1],
            past_key_values=cache,
            use_cache=True,
        ).logits
        parts.append(
            logprobs_and_entropy(logits, responses[:, 1:], temperature=temperature, entropy=entropy, reuse=True)
        )
    logprobs, entropies = zip(*parts, strict=True)
    return _joined(logprobs, length), _joined(entropies, length) if entropy else None


def _joined(parts: Sequence[Tensor | None], length: int) -> Tensor:
    values = torch.cat([part for part in parts if part is not None], dim=1)
    return torch.nn.functional.pad(values, (0, length - values.shape[1]))


def _goes_on(model: torch.nn.Module, config: PretrainedConfig) -> bool:
    """Whether the model can be called twice, the second time from the keys and values of the first.

    With several ranks every forward pass is a collective, and the ranks' micro-batches differ in what they share. With
    gradient checkpointing transformers keeps no cache, and attention over a window forgets part of the prompt.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    if dist.is_initialized() and dist.get_world_size() > 1:
        return False
    inner = _inner(model)
    if inner.training and getattr(inner, "is_gradient_checkpointing", False):
        return False
    layers = DynamicCache(config=config).layers
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers)


def _inner(model: torch.nn.Module) -> torch.nn.Module:
    """The network itself: a reference without adapters only stands for it."""
    held = getattr(model, "_model", None)
    return held[0] if isinstance(held, tuple) else model


def _config(model: torch.nn.Module) -> PretrainedConfig | None:
    return getattr(_inner(model), "config", None)
