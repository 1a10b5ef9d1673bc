"""Sampling with a Hugging Face causal language model and its key-value cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from trainer.failures import NonFiniteError
from trainer.rollout.engine import Request, Response, Sampling
from trainer.rollout.kv_cache import distinct, reserved_cache, rows_can_move

if TYPE_CHECKING:
    from transformers import DynamicCache, PreTrainedModel


@dataclass(kw_only=True, slots=True)
class _Batch:
    """Sequences on their way. B rows at the start, of which those that have not ended are still here.

    Attributes:
        rows: `[alive]`, their places among the B.
        noise: `[alive, max_tokens]`, uniform numbers; None for the likeliest token.
        attention: `[alive, width + max_tokens]`, 0 on the padding before the prompts.
        positions: Same shape.
        width: Places of the prompts.
        padded: Whether any prompt has padding before it; without it the model needs no mask.
    """

    rows: Tensor
    noise: Tensor | None
    attention: Tensor
    positions: Tensor
    width: int
    padded: bool

    def keep(self, kept: Tensor) -> None:
        """Drop all rows but these."""
        self.rows, self.attention, self.positions = self.rows[kept], self.attention[kept], self.positions[kept]
        if self.noise is not None:
            self.noise = self.noise[kept]


class HfEngine:
    """Holds a whole copy of the actor, so sampling needs no gather of sharded parameters.

    Args:
        model: A causal language model of transformers.
        pad_id: Padding token.
        end_id: Token that ends a response.
        max_batch_size: Most sequences decoded at once.
    """

    def __init__(self, model: PreTrainedModel, *, pad_id: int, end_id: int, max_batch_size: int) -> None:
        self._model = model
        self._pad_id = pad_id
        self._end_id = end_id
        self._max_batch_size = max_batch_size
        self._version = -1

    @property
    def policy_version(self) -> int:
        """The version of the weights held; -1 before the first sync."""
        return self._version

    def sync(self, weights: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Take over the actor's weights: the tensors themselves where they fit, so that they are held once.

        A tensor that goes on changing afterwards changes here too; whoever trains has to sync again before sampling,
        which `check_version` insists on.
        """
        own = dict(self._model.named_parameters(remove_duplicate=False))
        with torch.no_grad():
            for name, tensor in weights:
                parameter = own[name]
                if (tensor.shape, tensor.dtype, tensor.device) == (parameter.shape, parameter.dtype, parameter.device):
                    parameter.data = tensor
                else:
                    parameter.copy_(tensor)
        self._version = policy_version

    def release(self) -> None:
        """Nothing: the key-value cache goes with the call, and the copy of the actor is small beside its optimizer."""

    @torch.no_grad()
    def generate(self, requests: Sequence[Request], sampling: Sampling) -> Response:
        """Sample one response per request, at most `max_batch_size` at a time, prompts of like length together."""
        order = sorted(range(len(requests)), key=lambda row: (len(requests[row].prompt), tuple(requests[row].prompt)))
        size, device = self._max_batch_size, next(self._model.parameters()).device
        empty = (len(requests), sampling.max_tokens)
        response = Response(
            tokens=torch.full(empty, self._pad_id, device=device),
            mask=torch.zeros(empty, dtype=torch.bool, device=device),
            logprobs=torch.zeros(empty, device=device),
            truncated=torch.zeros(len(requests), dtype=torch.bool, device=device),
            policy_version=self._version,
        )
        for start in range(0, len(order), size):
            part = order[start : start + size]
            self._decode([requests[row] for row in part], torch.tensor(part, device=device), sampling, response)
        return response

    def _decode(self, requests: Sequence[Request], rows: Tensor, sampling: Sampling, response: Response) -> None:
        """Sample into these rows of the response."""
        longest = sampling.max_tokens
        inputs, attention = self._left_padded(requests)
        attention = torch.cat([attention, attention.new_ones(len(requests), longest)], dim=1)
        batch = _Batch(
            rows=rows,
            noise=_noise(requests, longest, rows.device) if sampling.temperature > 0 else None,
            attention=attention,
            positions=(attention.cumsum(dim=1) - 1).clamp(min=0),
            width=inputs.shape[1],
            padded=not bool(attention.all()),
        )
        cache = reserved_cache(self._model.config, batch.width + longest)
        logits = self._prefill(requests, inputs, batch, cache)
        alive = torch.ones(len(requests), dtype=torch.bool, device=rows.device)
        for step in range(longest):
            if step:
                end = batch.width + step
                mask = batch.attention[:, :end] if batch.padded else None
                logits = self._logits(inputs, mask, batch.positions[:, end - 1 : end], cache)
            chosen, logprobs = _choose(logits, sampling.temperature, batch.noise, step)
            response.tokens[batch.rows, step] = torch.where(alive, chosen, self._pad_id)
            response.logprobs[batch.rows, step] = torch.where(alive, logprobs, 0.0)
            response.mask[batch.rows, step] = alive
            alive = alive & (chosen != self._end_id)
            left = int(alive.sum())
            if left == 0:
                break
            inputs = chosen[:, None]
            if 2 * left <= len(alive) and rows_can_move(cache):
                kept = alive.nonzero().squeeze(1)
                batch.keep(kept)
                cache.batch_select_indices(kept)
                inputs, alive = inputs[kept], alive[kept]
        response.truncated[batch.rows] = alive

    def _prefill(self, requests: Sequence[Request], inputs: Tensor, batch: _Batch, cache: DynamicCache) -> Tensor:
        """Read the prompts, each distinct one once; returns the logits of every row's first token."""
        attention, positions = batch.attention[:, : batch.width], batch.positions[:, : batch.width]
        first, of_row = distinct([tuple(request.prompt) for request in requests])
        if len(first) == len(requests) or not rows_can_move(cache):
            return self._logits(inputs, attention, positions, cache)
        once, places = torch.tensor(first, device=inputs.device), torch.tensor(of_row, device=inputs.device)
        logits = self._logits(inputs[once], attention[once], positions[once], cache)
        cache.batch_select_indices(places)
        return logits[places]

    def _logits(self, inputs: Tensor, attention: Tensor | None, positions: Tensor, cache: DynamicCache) -> Tensor:
        """The logits `[rows, vocab]` of the token after the last."""
        logits: Tensor = self._model(
            input_ids=inputs,
            attention_mask=attention,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits
        return logits[:, -1]

    def _left_padded(self, requests: Sequence[Request]) -> tuple[Tensor, Tensor]:
        device = next(self._model.parameters()).device
        width = max(len(request.prompt) for request in requests)
        rows = [[self._pad_id] * (width - len(request.prompt)) + list(request.prompt) for request in requests]
        masks = [[0] * (width - len(request.prompt)) + [1] * len(request.prompt) for request in requests]
        return torch.tensor(rows, device=device), torch.tensor(masks, device=device)


def _noise(requests: Sequence[Request], longest: int, device: torch.device) -> Tensor:
    """Uniform numbers `[batch, time]`, each row from its request's own counter-based generator."""
    rows = [np.random.Generator(np.random.Philox(key=request.seed)).random(longest) for request in requests]
    return torch.from_numpy(np.stack(rows)).to(device)


def _choose(logits: Tensor, temperature: float, noise: Tensor | None, step: int) -> tuple[Tensor, Tensor]:
    """The next token of each row by inverting the cumulative distribution, and its log-probability."""
    logits = logits.float()
    if noise is None:
        logprobs = logits.log_softmax(dim=-1)
        chosen = logits.argmax(dim=-1)
    else:
        logprobs = (logits if temperature == 1.0 else logits / temperature).log_softmax(dim=-1)
        cumulative = logprobs.double().exp_().cumsum(dim=-1)
        threshold = noise[:, step, None] * cumulative[:, -1:]
        chosen = (cumulative <= threshold).sum(dim=-1).clamp(max=logits.shape[-1] - 1)
    of_chosen = logprobs.gather(-1, chosen[:, None]).squeeze(-1)
    if not bool(torch.isfinite(of_chosen).all()):  # one logit that is not finite makes the whole sum so
        raise NonFiniteError(
            f"the actor's logits are not finite at response token {step + 1}: its weights are destroyed",
            hint="lower trainer.optim.lr or trainer.grad_clip",
        )
    return chosen, of_chosen
