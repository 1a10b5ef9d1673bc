"""Attention over sequences that lie end to end in one row, without padding between them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trainer.config import ConfigError, ConfigProblem

if TYPE_CHECKING:
    from transformers import PreTrainedModel

UNPADDED = "autotune_unpadded"
"""The name under which transformers knows the attention."""

TOLERANCE = 1e-4
"""Difference of log-probabilities that float32 rounding may explain, as a share of their standard deviation."""


def allow_unpadded(model: PreTrainedModel) -> None:
    """Let a causal language model take sequences end to end, in place; rows with padding stay possible.

    Whether that is allowed is measured: the model answers for two short sequences in one row and in two.

    Args:
        model: In float32, not sharded.

    Raises:
        ConfigError: It computes something else, as a model does that mixes tokens in other ways than by attention.
    """
    _register()
    try:
        padded = _probe(model, joined=False)
        model.set_attn_implementation(UNPADDED)
        gap = float((_probe(model, joined=True) - padded).abs().max() / padded.std())
    except (TypeError, ValueError) as error:
        raise _refused(f"{type(model).__name__} does not take it: {error}") from error
    if not gap <= TOLERANCE or getattr(model.config.get_text_config(), "attention_chunk_size", None):
        raise _refused(
            f"{type(model).__name__} computes something else for sequences end to end (log-probabilities differ by up "
            f"to {gap:.2g} of their standard deviation)"
        )


@cache
def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    def attention(
        module: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        *,
        runs: Sequence[tuple[int, int]] | None = None,
        sliding_window: int | None = None,
        **named: object,
    ) -> tuple[Tensor, None]:
        # `runs`: number and length of the sequences of equal length that follow each other; None means rows with
        # padding and a mask. All else is as transformers hands it over, `[1, heads, tokens, width]`.
        if runs is None:
            named["sliding_window"] = sliding_window
            return sdpa_attention_forward(module, query, key, value, attention_mask, **named)
        parts, start = [], 0
        for count, length in runs:
            end = start + count * length
            # A run is a batch of sequences of one length: a view, and no padding anywhere.
            batch = [
                states[0, :, start:end].unflatten(1, (count, length)).transpose(0, 1) for states in (query, key, value)
            ]
            mask = _window(length, sliding_window, query.device)
            part, _ = sdpa_attention_forward(module, *batch, mask, **named)
            parts.append(part.flatten(0, 1))
            start = end
        return torch.cat(parts).unsqueeze(0), None

    def mask_of(*arguments: object, **named: object) -> Tensor | None:
        return None if named.get("attention_mask") is None else sdpa_mask(*arguments, **named)

    AttentionInterface.register(UNPADDED, attention)
    AttentionMaskInterface.register(UNPADDED, mask_of)


def _window(length: int, sliding_window: int | None, device: torch.device) -> Tensor | None:
    """The mask of attention that looks back a limited way; None when it looks back to the start."""
    if sliding_window is None or length <= sliding_window:
        return None
    places = torch.arange(length, device=device)
    distance = places[:, None] - places[None, :]
    return (distance >= 0) & (distance < sliding_window)


@torch.no_grad()
def _probe(model: PreTrainedModel, *, joined: bool) -> Tensor:
    """Log-probabilities after each token of a sequence of 3 and one of 5 tokens, in one row or each in its own."""
    device = next(model.parameters()).device
    vocabulary = model.get_input_embeddings().num_embeddings
    tokens = (torch.arange(8, device=device) * 7 + 3) % vocabulary
    places = torch.cat([torch.arange(3), torch.arange(5)]).to(device)
    lengths = (3, 5)
    if joined:
        named = {"attention_mask": None, "runs": tuple((1, length) for length in lengths)}
        logits = model(input_ids=tokens[None], position_ids=places[None], use_cache=False, **named).logits[0]
    else:
        rows = [
            model(
                input_ids=part[None],
                attention_mask=torch.ones_like(part[None]),
                position_ids=place[None],
                use_cache=False,
            ).logits[0]
            for part, place in zip(tokens.split(lengths), places.split(lengths), strict=True)
        ]
        logits = torch.cat(rows)
    return logits.float().log_softmax(dim=-1)


def _refused(why: str) -> ConfigError:
    hint = "set it to false: then rows of like length are put together and their padding is cut"
    problem = ConfigProblem(path="trainer.use_remove_padding", message=f"got true, but {why}", hint=hint)
    return ConfigError([problem])
