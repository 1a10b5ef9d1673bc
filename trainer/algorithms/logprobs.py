"""Log-probabilities and entropy from logits, without a second tensor of the logits' size.

Logits of all tokens over the whole vocabulary are the largest tensor of a training step. Everything derived from them
(scaled, float32, softmax) is made for a chunk of tokens at a time, in the backward pass too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

CHUNK = {"cpu": 2**20, "cuda": 2**24}
"""Logits handled at once, by device; a chunk and its few temporaries take 4 bytes each for every one of them. A CPU
works through them twice as fast while they fit its cache; a GPU wants long rows of work."""


def logprobs_and_entropy(
    logits: Tensor, tokens: Tensor, *, temperature: float, entropy: bool, reuse: bool = False, chunk: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """Log-probability of each token and entropy of its distribution, `softmax(logits / temperature)`, in float32.

    The entropy is `logsumexp(z) - sum(softmax(z) * z)`.

    Args:
        logits: `[batch, places, vocab]`; place t holds the distribution of `tokens[:, t]`. Places beyond the tokens are
            ignored: slicing them off would copy the whole gradient.
        tokens: `[batch, time]`, int64, `time <= places`.
        temperature: The sampling temperature; the same in every pass, or the ratio is not 1 before the first update.
        entropy: Compute the entropy too.
        reuse: Let the backward pass write the gradient over the logits. For logits that nobody reads afterwards;
            autograd raises when somebody does.
        chunk: Logits handled at once (None takes `CHUNK`).

    Returns:
        `[batch, time]` each (nats); no entropy when it was not asked for.
    """
    size = CHUNK.get(logits.device.type, CHUNK["cuda"]) if chunk is None else chunk
    logprobs, entropies = _FromLogits.apply(logits, tokens, temperature, entropy, reuse, size)  # type: ignore[no-untyped-call]
    return logprobs, entropies


def token_logprobs(logits: Tensor, tokens: Tensor, *, temperature: float) -> Tensor:
    """Log-probability of each token, `[batch, time]` (nats); arguments as in `logprobs_and_entropy`."""
    return logprobs_and_entropy(logits, tokens, temperature=temperature, entropy=False)[0]


class _FromLogits(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - autograd's context takes any attribute
        logits: Tensor,
        tokens: Tensor,
        temperature: float,
        entropy: bool,
        reuse: bool,
        chunk: int,
    ) -> tuple[Tensor, Tensor | None]:
        shape = tokens.shape
        logprobs = torch.empty(shape, device=logits.device, dtype=torch.float32)
        norms = torch.empty_like(logprobs)
        entropies = torch.empty_like(logprobs) if entropy else None
        for place in _chunks(shape, logits.shape[-1], chunk):
            scaled = _scaled(logits[place], temperature)
            norms[place] = torch.logsumexp(scaled, dim=-1)
            logprobs[place] = scaled.gather(-1, tokens[place].unsqueeze(-1)).squeeze(-1) - norms[place]
            if entropies is not None:
                entropies[place] = norms[place] - scaled.softmax(dim=-1).mul_(scaled).sum(dim=-1)
        ctx.save_for_backward(logits, tokens, norms, entropies)
        ctx.options = temperature, reuse, chunk
        ctx.set_materialize_grads(False)  # an entropy that is only reported costs nothing on the way back
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, of_logprobs: Tensor | None, of_entropies: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        logits, tokens, norms, entropies = ctx.saved_tensors
        of_logprobs = torch.zeros_like(norms) if of_logprobs is None else of_logprobs
        temperature, reuse, chunk = ctx.options
        result = logits.detach() if reuse else torch.empty_like(logits)
        for place in _chunks(tokens.shape, logits.shape[-1], chunk):
            scaled = _scaled(logits[place], temperature)
            softmax = (scaled - norms[place].unsqueeze(-1)).exp_()
            outer = of_logprobs[place].unsqueeze(-1)
            part = (softmax * -outer).scatter_add_(-1, tokens[place].unsqueeze(-1), outer)
            if entropies is not None and of_entropies is not None:
                # dH/dz = -softmax * (z - E[z]), where E[z] = logsumexp(z) - H
                distance = scaled - (norms[place] - entropies[place]).unsqueeze(-1)
                part.sub_(distance.mul_(softmax).mul_(of_entropies[place].unsqueeze(-1)))
            result[place] = part if temperature == 1.0 else part.div_(temperature)
        result[:, tokens.shape[1] :] = 0.0
        return result, None, None, None, None, None


def _scaled(logits: Tensor, temperature: float) -> Tensor:
    return logits.float() if temperature == 1.0 else logits.float() / temperature


def _chunks(shape: torch.Size, vocab: int, chunk: int) -> Iterator[tuple[slice, slice]]:
    """Places `[rows, time]` that hold at most `chunk` logits together, and at least one token."""
    batch, time = shape
    span = max(1, min(time, chunk // vocab))
    rows = max(1, chunk // (vocab * span)) if span == time else 1
    for row in range(0, batch, rows):
        for start in range(0, time, span):
            yield slice(row, row + rows), slice(start, min(start + span, time))
