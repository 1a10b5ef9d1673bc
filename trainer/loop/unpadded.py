"""Forward passes over prompt and response without padding: the sequences of a micro-batch lie end to end in one row."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from trainer.algorithms import logprobs_and_entropy
from trainer.loop.experience import position_ids


@dataclass(frozen=True, kw_only=True, slots=True)
class Joined:
    """The sequences of a micro-batch in one row, shortest first. N tokens, B sequences.

    Attributes:
        tokens: `[1, N]`.
        positions: `[1, N]`, from 0 in each sequence.
        runs: Number and length of the sequences of equal length that follow each other (tokens).
        real: `[B, time]`, where the tokens are in rows, in this order.
        inverse: `[B]`, the order that gives the rows back.
    """

    tokens: Tensor
    positions: Tensor
    runs: tuple[tuple[int, int], ...]
    real: Tensor
    inverse: Tensor

    def places(self, width: int) -> Tensor:
        """Which of the N tokens are in the last `width` places of the rows."""
        late = torch.zeros_like(self.real)
        late[:, -width:] = True
        return late[self.real].nonzero().squeeze(1)

    def rows(self, values: Tensor, width: int) -> Tensor:
        """Values of the tokens in the last `width` places, back in the batch's rows; 0 where there is none."""
        empty = torch.zeros(len(self.real), width, device=values.device, dtype=values.dtype)
        return empty.masked_scatter(self.real[:, -width:], values)[self.inverse]


def join(tokens: Tensor, attention_mask: Tensor) -> Joined:
    """Put the real tokens of `[batch, time]` rows end to end; a row's real tokens must follow each other."""
    lengths = attention_mask.sum(dim=1)
    order = lengths.argsort(stable=True)
    real = attention_mask[order].bool()
    runs = tuple((len(list(same)), length) for length, same in groupby(lengths[order].tolist()) if length)
    return Joined(
        tokens=tokens[order][real].unsqueeze(0),
        positions=position_ids(attention_mask)[order][real].unsqueeze(0),
        runs=runs,
        real=real,
        inverse=order.argsort(),
    )


def unpadded_logprobs(
    model: torch.nn.Module, tokens: Tensor, attention_mask: Tensor, length: int, temperature: float, *, entropy: bool
) -> tuple[Tensor, Tensor | None]:
    """As `response_logprobs`, with 0 after the end of a response; logits are made for response tokens alone.

    Every prompt must have a token, or the first one of the response would have nothing before it.
    """
    joined = join(tokens, attention_mask)
    places = joined.places(length)
    logits = model(
        input_ids=joined.tokens,
        attention_mask=None,
        position_ids=joined.positions,
        use_cache=False,
        runs=joined.runs,
        logits_to_keep=places - 1,
    ).logits
    logprobs, entropies = logprobs_and_entropy(
        logits, joined.tokens[:, places], temperature=temperature, entropy=entropy, reuse=True
    )
    rows = joined.rows(logprobs.squeeze(0), length)
    return rows, None if entropies is None else joined.rows(entropies.squeeze(0), length)


def unpadded_values(critic: torch.nn.Module, tokens: Tensor, attention_mask: Tensor, length: int) -> Tensor:
    """As `response_values`, with 0 after the end of a response."""
    joined = join(tokens, attention_mask)
    values: Tensor = critic(joined.tokens, None, joined.positions, runs=joined.runs)
    return joined.rows(values[0, joined.places(length + 1), 0].float(), length + 1)
