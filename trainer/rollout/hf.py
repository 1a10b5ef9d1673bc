"""Sampling with a Hugging Face causal language model and its key-value cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from trainer.failures import NonFiniteError
from trainer.rollout.engine import Request, Response, Sampling


class HfEngine:
    """Holds a whole copy of the actor, so sampling needs no gather of sharded parameters.

    Args:
        model: A causal language model of transformers.
        pad_id: Padding token.
        end_id: Token that ends a response.
        max_batch_size: Most sequences decoded at once.
    """

    def __init__(self, model: torch.nn.Module, *, pad_id: int, end_id: int, max_batch_size: int) -> None:
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
        """Copy the actor's weights."""
        own = self._model.state_dict()
        with torch.no_grad():
            for name, tensor in weights:
                own[name].copy_(tensor)
        self._version = policy_version

    def release(self) -> None:
        """Nothing: the key-value cache goes with the call, and the copy of the actor is small beside its optimizer."""

    @torch.no_grad()
    def generate(self, requests: Sequence[Request], sampling: Sampling) -> Response:
        """Sample one response per request, at most `max_batch_size` at a time."""
        size = self._max_batch_size
        parts = [self._decode(requests[start : start + size], sampling) for start in range(0, len(requests), size)]
        return Response(
            tokens=torch.cat([part.tokens for part in parts]),
            mask=torch.cat([part.mask for part in parts]),
            logprobs=torch.cat([part.logprobs for part in parts]),
            truncated=torch.cat([part.truncated for part in parts]),
            policy_version=self._version,
        )

    def _decode(self, requests: Sequence[Request], sampling: Sampling) -> Response:
        batch, longest = len(requests), sampling.max_tokens
        inputs, attention = self._left_padded(requests)
        device = inputs.device
        width = inputs.shape[1]
        attention = torch.cat([attention, attention.new_ones(batch, longest)], dim=1)
        positions = (attention.cumsum(dim=1) - 1).clamp(min=0)
        tokens = torch.full((batch, longest), self._pad_id, device=device)
        logprobs = torch.zeros(batch, longest, device=device)
        mask = torch.zeros(batch, longest, dtype=torch.bool, device=device)
        noise = _noise(requests, longest, device) if sampling.temperature > 0 else None
        alive = torch.ones(batch, dtype=torch.bool, device=device)
        cache, start = None, 0
        for step in range(longest):
            end = width + step
            output = self._model(
                input_ids=inputs,
                attention_mask=attention[:, :end],
                position_ids=positions[:, start:end],
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            cache, start = output.past_key_values, end
            chosen, chosen_logprobs = _choose(output.logits[:, -1], sampling.temperature, noise, step)
            tokens[:, step] = torch.where(alive, chosen, self._pad_id)
            logprobs[:, step] = torch.where(alive, chosen_logprobs, 0.0)
            mask[:, step] = alive
            alive = alive & (chosen != self._end_id)
            inputs = chosen[:, None]
            if not bool(alive.any()):
                break
        return Response(tokens=tokens, mask=mask, logprobs=logprobs, truncated=alive, policy_version=self._version)

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
    if not bool(torch.isfinite(logits).all()):
        raise NonFiniteError(
            f"the actor's logits are not finite at response token {step + 1}: its weights are destroyed",
            hint="lower trainer.optim.lr or trainer.grad_clip",
        )
    if noise is None:
        logprobs = logits.log_softmax(dim=-1)
        chosen = logits.argmax(dim=-1)
    else:
        logprobs = (logits / temperature).log_softmax(dim=-1)
        cumulative = logprobs.double().exp().cumsum(dim=-1)
        threshold = noise[:, step, None] * cumulative[:, -1:]
        chosen = (cumulative <= threshold).sum(dim=-1).clamp(max=logits.shape[-1] - 1)
    return chosen, logprobs.gather(-1, chosen[:, None]).squeeze(-1)
