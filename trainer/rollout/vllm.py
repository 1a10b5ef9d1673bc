"""Sampling with vLLM in this process."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from trainer.config import ConfigError, ConfigProblem
from trainer.failures import NonFiniteError, WeightSyncError
from trainer.rollout.engine import Request, Response, Sampling
from trainer.rollout.parity import ParityCheck
from trainer.rollout.team import Team, rows
from trainer.rollout.vllm_settings import set_environment

if TYPE_CHECKING:
    from vllm import LLM

Weights = Iterable[tuple[str, Tensor]]


def load_weights(llm: LLM, weights: Weights) -> None:
    """Put weights into the running model, in the format of a checkpoint; vLLM packs and shards them as it needs."""
    llm.collective_rpc("reload_weights", kwargs={"weights_iterator": weights, "is_checkpoint_format": True})


def forget_prefixes(llm: LLM) -> None:
    """Drop the cached keys and values: the weights before computed them.

    Raises:
        WeightSyncError: vLLM refuses.
    """
    if not llm.reset_prefix_cache():
        raise WeightSyncError("vLLM did not reset its prefix cache", hint="requests are still running")


@dataclass(frozen=True, kw_only=True, slots=True)
class SyncSteps:
    """What a sync consists of; both are needed for the engine to be the actor.

    Attributes:
        load: Hands the weights over.
        forget: Drops what the old weights computed.
    """

    load: Callable[[LLM, Weights], None] = load_weights
    forget: Callable[[LLM], None] = forget_prefixes


def open_llm(arguments: dict[str, object], team: Team | None = None) -> LLM:
    """Start vLLM; the process's random states are left as they were.

    Args:
        arguments: Of `vllm.LLM`.
        team: The ranks that hold this engine together; None for this one alone.

    Raises:
        ConfigError: vLLM refuses its arguments.
    """
    name = None if team is None or team.size == 1 else f"autotune-{team.all(os.getpid())[0]}"
    set_environment(name)
    from vllm import LLM

    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        llm = LLM(**arguments)
    except ValueError as error:
        message = f"vLLM refuses it: {' '.join(str(error).split())[:500]}"
        hint = "change the keys of rollout or the lengths in data"
        raise ConfigError([ConfigProblem(path="rollout", message=message, hint=hint)]) from error
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        torch.cuda.set_rng_state_all(on_gpus)
    # At its end vLLM would destroy the process group, which is the trainer's; memory goes with the process.
    finalizer = getattr(llm.llm_engine.engine_core, "_finalizer", None)
    if finalizer is not None:
        finalizer.detach()
    return llm


class VllmEngine:
    """Hands weights and requests to vLLM.

    Args:
        llm: A running vLLM.
        pad_id: Padding token.
        end_id: Token that ends a response.
        device: Where responses go.
        parity: Checks every sync on the first request that follows; None trusts it.
        steps: What a sync consists of.
        tied: A weight that vLLM has under a second name too: the name that comes, and the other.
        team: The ranks that hold this engine together; None for this one alone.
        sleeps: Give the memory back at `release`.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        pad_id: int,
        end_id: int,
        device: torch.device,
        parity: ParityCheck | None = None,
        steps: SyncSteps | None = None,
        tied: tuple[str, str] | None = None,
        team: Team | None = None,
        sleeps: bool = False,
    ) -> None:
        self._llm = llm
        self._pad_id = pad_id
        self._end_id = end_id
        self._device = device
        self._parity = parity
        self._steps = steps or SyncSteps()
        self._tied = tied
        self._team = team or Team()
        self._sleeps = sleeps
        self._asleep = False
        self._version = -1
        self._unchecked = False

    @property
    def policy_version(self) -> int:
        """The version of the weights held; -1 before the first sync."""
        return self._version

    def sync(self, weights: Weights, policy_version: int) -> None:
        """Load the actor's weights and forget every cached prefix."""
        if self._parity is not None:
            weights = self._parity.taking(weights)
        if self._asleep:
            self._llm.wake_up(tags=["weights"])
        self._steps.load(self._llm, _fresh(weights, self._tied))
        self._steps.forget(self._llm)
        if self._asleep:
            # Only now: with the copies that loading makes, weights and cache might not fit together.
            self._llm.wake_up(tags=["kv_cache"])
            self._asleep = False
        self._version = policy_version
        self._unchecked = True

    def release(self) -> None:
        """Give weights and key-value cache back; the next sync brings new weights, so these need not be kept."""
        if self._sleeps and not self._asleep:
            self._llm.sleep(level=2)
            self._asleep = True
            self._version = -1

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> Response:
        """Sample one response per request; the ranks of the team call it together.

        Raises:
            NonFiniteError: The actor's log-probabilities are not finite.
            WeightSyncError: The engine computes something else than the actor.
        """
        if self._asleep:  # vLLM would wait for ever
            raise WeightSyncError("vLLM sleeps and holds no weights", hint="sync the weights before sampling")
        everyone, mine = self._team.gathered(requests)
        response = self._sampled(everyone, sampling)
        if self._parity is not None and self._unchecked and sampling.temperature > 0:
            # vLLM reports greedy log-probabilities at temperature 1 or not at all: only sampled ones are compared.
            self._parity.check(everyone, response)
            self._unchecked = False
        return rows(response, mine)

    def _sampled(self, requests: Sequence[Request], sampling: Sampling) -> Response:
        from vllm import SamplingParams
        from vllm.inputs import TokensPrompt

        prompts = [TokensPrompt(prompt_token_ids=list(request.prompt)) for request in requests]
        parameters = [
            SamplingParams(
                temperature=sampling.temperature,
                max_tokens=sampling.max_tokens,
                seed=request.seed,
                stop_token_ids=[self._end_id],
                ignore_eos=True,
                logprobs=0,
                detokenize=False,
            )
            for request in requests
        ]
        outputs = self._llm.generate(prompts, parameters, use_tqdm=False)
        shape = (len(requests), sampling.max_tokens)
        tokens = torch.full(shape, self._pad_id)
        logprobs, mask = torch.zeros(shape), torch.zeros(shape, dtype=torch.bool)
        for row, output in enumerate(outputs):
            answer = output.outputs[0]
            ids = list(answer.token_ids)
            tokens[row, : len(ids)] = torch.tensor(ids)
            mask[row, : len(ids)] = True
            chosen = [step[token].logprob for step, token in zip(answer.logprobs, ids, strict=True)]
            logprobs[row, : len(ids)] = torch.tensor(chosen)
        if not bool(torch.isfinite(logprobs).all()):
            raise NonFiniteError(
                "the actor's log-probabilities are not finite in vLLM: its weights are destroyed",
                hint="lower trainer.optim.lr or trainer.grad_clip",
            )
        ended = (tokens.eq(self._end_id) & mask).any(dim=1)
        return Response(
            tokens=tokens.to(self._device),
            mask=mask.to(self._device),
            logprobs=logprobs.to(self._device),
            truncated=(~ended).to(self._device),
            policy_version=self._version,
        )


def _fresh(weights: Weights, tied: tuple[str, str] | None) -> Iterator[tuple[str, Tensor]]:
    """A copy of each tensor: vLLM keeps what it is given until the whole layer is there."""
    for name, tensor in weights:
        yield name, tensor.detach().clone()
        if tied is not None and name == tied[0]:
            yield tied[1], tensor.detach().clone()
