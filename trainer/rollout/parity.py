"""Prove after a sync that the engine computes what the trainer computes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from trainer.failures import WeightSyncError
from trainer.rollout.engine import Request, Response


class ParityCheck:
    """Holds a plain copy of the actor, and compares its log-probabilities with an engine's.

    Args:
        model: A whole copy of the actor; takes the weights of every sync.
        tolerance: Largest difference allowed (nats).
        temperature: The sampling temperature.
    """

    def __init__(self, model: torch.nn.Module, *, tolerance: float, temperature: float) -> None:
        self._model = model
        self._tolerance = tolerance
        self._temperature = temperature

    @torch.no_grad()
    def taking(self, weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """The same weights, each copied into the model on its way."""
        own = self._model.state_dict()
        for name, tensor in weights:
            own[name].copy_(tensor)
            yield name, tensor

    @torch.no_grad()
    def gap(self, requests: Sequence[Request], response: Response) -> float:
        """The largest difference between the response's log-probabilities and the model's (nats)."""
        gaps = []
        for request, tokens, mask, theirs in zip(
            requests, response.tokens, response.mask, response.logprobs, strict=True
        ):
            answer = tokens[mask]
            prompt = torch.tensor(list(request.prompt), device=tokens.device)
            ids = torch.cat([prompt, answer])[None]
            logits = self._model(input_ids=ids, use_cache=False, logits_to_keep=len(answer) + 1).logits[0, :-1]
            ours = (logits.float() / self._temperature).log_softmax(dim=-1).gather(1, answer[:, None]).squeeze(1)
            gaps.append(float((ours - theirs[mask]).abs().max()))
        return max(gaps)

    def check(self, requests: Sequence[Request], response: Response) -> None:
        """Refuse an engine that computes something else.

        Raises:
            WeightSyncError: The difference is larger than allowed, or not a number.
        """
        gap = self.gap(requests, response)
        if not gap <= self._tolerance:
            raise WeightSyncError(
                f"after the sync to policy version {response.policy_version} the engine's log-probabilities differ "
                f"from the actor's by up to {gap:.3g} nats, allowed are {self._tolerance:g}",
                hint="use the same dtype for rollout and model, or raise rollout.sync_tolerance",
            )
