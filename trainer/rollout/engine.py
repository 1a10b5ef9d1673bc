"""What a rollout engine offers, whichever library does the sampling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from trainer.failures import WeightSyncError
from trainer.seeds import derived_seed


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One response wanted.

    Attributes:
        prompt: Token ids.
        seed: Seeds the sampling of this response alone (see `sample_seed`).
    """

    prompt: Sequence[int]
    seed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """How to sample.

    Attributes:
        temperature: Sampling temperature; 0 takes the likeliest token.
        max_tokens: Longest response, end token included.
    """

    temperature: float
    max_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """Sampled responses, one row per request, padded to `max_tokens`.

    Attributes:
        tokens: `[batch, max_tokens]`, int64, end token included, then padding.
        mask: `[batch, max_tokens]`, boolean, true up to and including the end token.
        logprobs: `[batch, max_tokens]`, log-probabilities by the engine, 0 where the mask is false (nats).
        truncated: `[batch]`, boolean, true where the limit came before an end token.
        policy_version: The version of the weights that sampled.
    """

    tokens: Tensor
    mask: Tensor
    logprobs: Tensor
    truncated: Tensor
    policy_version: int


class RolloutEngine(Protocol):
    """An engine: it receives weights, then samples with them."""

    @property
    def policy_version(self) -> int:
        """The version of the weights held; -1 before the first sync."""

    def sync(self, weights: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Take over the actor's weights (name and whole tensor), which are called `policy_version` from now on."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> Response:
        """Sample one response per request with the weights held; with several ranks all call it together."""

    def release(self) -> None:
        """Give memory back until the next sync; an engine that has none to give goes on holding its weights."""


def check_version(engine: RolloutEngine, wanted: int) -> None:
    """Refuse to sample with weights other than the actor's.

    Raises:
        WeightSyncError: The engine holds another version.
    """
    if engine.policy_version != wanted:
        raise WeightSyncError(
            f"the rollout engine holds policy version {engine.policy_version}, the actor is at {wanted}",
            hint="sync the weights before sampling",
        )


def sample_seed(seed: int, step: int, prompt: int, sample: int) -> int:
    """A seed for one response that depends on nothing else: not on batch order, batch size or the number of ranks.

    Returns:
        0 to 2**63 - 1.
    """
    return derived_seed("response", seed, step, prompt, sample)
