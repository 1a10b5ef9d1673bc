"""Sampling with an SGLang server over its HTTP API: one rank of all talks to it."""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trainer.failures import EngineError, NonFiniteError, TrainerError, WeightSyncError
from trainer.rollout.engine import Request, Response, Sampling
from trainer.rollout.parity import ParityCheck
from trainer.rollout.sglang_client import SglangClient
from trainer.rollout.shards import save_shards
from trainer.rollout.team import Team, rows

if TYPE_CHECKING:
    from transformers import PretrainedConfig


class SglangEngine:
    """Hands weights to a server as files and requests as JSON.

    Every sync names the weights by a word that no other run uses, and every answer says under which word it was
    sampled: a server that two runs share, or that was restarted, is found out.

    Args:
        client: Talks to the server; used by the team's leader alone.
        team: All ranks.
        directory: Where weights lie for the server to read; the leader writes, the server must see it.
        shape: The model's configuration, written beside the weights.
        dtype: The type that weights are written in.
        pad_id: Padding token.
        end_id: Token that ends a response.
        device: Where responses go.
        parity: Checks every sync on the first requests that follow; None trusts it.
    """

    def __init__(
        self,
        client: SglangClient,
        *,
        team: Team,
        directory: Path,
        shape: PretrainedConfig,
        dtype: torch.dtype,
        pad_id: int,
        end_id: int,
        device: torch.device,
        parity: ParityCheck | None = None,
    ) -> None:
        self._client = client
        self._team = team
        self._directory = directory
        self._shape = shape
        self._dtype = dtype
        self._pad_id = pad_id
        self._end_id = end_id
        self._device = device
        self._parity = parity
        self._run = uuid.uuid4().hex[:12]
        self._version = -1
        self._unchecked = False

    @property
    def policy_version(self) -> int:
        """The version of the weights that the server was given last; -1 before the first sync."""
        return self._version

    def sync(self, weights: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Write the actor's weights, have the server load them, and have it forget every cached prefix.

        Raises:
            EngineError: The server does not answer.
            WeightSyncError: The server refuses.
        """
        if self._parity is not None:
            weights = self._parity.taking(weights)
        self._version = -1
        word = f"{self._run}-{policy_version}"
        target = self._directory / word
        cast = ((name, tensor.detach().to(self._dtype)) for name, tensor in weights)
        with self._together() as failures:
            if self._team.is_leader:
                try:
                    # All weights must be taken by all ranks, whatever befalls the leader: gathering is collective.
                    save_shards(cast, self._shape, target)
                    self._client.update_weights(target, word)
                    self._client.flush_cache()
                except TrainerError as error:
                    failures.append(error)
                finally:
                    for _ in cast:
                        pass
                    shutil.rmtree(target, ignore_errors=True)
            else:
                for _ in cast:
                    pass
        self._version = policy_version
        self._unchecked = True

    def release(self) -> None:
        """Nothing: the server's memory is its own."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> Response:
        """Sample one response per request; all ranks call it together.

        Raises:
            EngineError: The server does not answer, or answers something else.
            NonFiniteError: The actor's log-probabilities are not finite.
            WeightSyncError: The server sampled with other weights, or computes something else than the actor.
        """
        everyone, mine = self._team.gathered(requests)
        response = None
        with self._together() as failures:
            if self._team.is_leader:
                try:
                    answers = self._client.generate(everyone, sampling, self._end_id)
                    response = self._response(answers, sampling)
                except TrainerError as error:
                    failures.append(error)
        response = self._team.all(response)[0]
        assert response is not None
        if self._parity is not None and self._unchecked and sampling.temperature > 0:
            self._parity.check(everyone, _on(response, self._device))
            self._unchecked = False
        return _on(rows(response, mine), self._device)

    @contextlib.contextmanager
    def _together(self) -> Iterator[list[TrainerError]]:
        """Collects what fails on the leader, and raises it on every rank: nobody waits for a rank that gave up."""
        failures: list[TrainerError] = []
        yield failures
        first = next((errors[0] for errors in self._team.all(failures) if errors), None)
        if first is not None:
            raise first

    def _response(self, answers: Sequence[Mapping[str, object]], sampling: Sampling) -> Response:
        word = f"{self._run}-{self._version}"
        shape = (len(answers), sampling.max_tokens)
        tokens, logprobs = torch.full(shape, self._pad_id), torch.zeros(shape)
        mask = torch.zeros(shape, dtype=torch.bool)
        for row, answer in enumerate(answers):
            ids, values = _sampled(answer, word, sampling.max_tokens)
            tokens[row, : len(ids)] = torch.tensor(ids)
            logprobs[row, : len(ids)] = torch.tensor(values)
            mask[row, : len(ids)] = True
        if not bool(torch.isfinite(logprobs).all()):
            raise NonFiniteError(
                "the actor's log-probabilities are not finite in SGLang: its weights are destroyed",
                hint="lower trainer.optim.lr or trainer.grad_clip",
            )
        ended = (tokens.eq(self._end_id) & mask).any(dim=1)
        return Response(tokens=tokens, mask=mask, logprobs=logprobs, truncated=~ended, policy_version=self._version)


def _sampled(answer: Mapping[str, object], word: str, longest: int) -> tuple[list[int], list[float]]:
    """Token ids and log-probabilities of one answer.

    The ids come with the log-probabilities: the answer's text leaves the end token out.
    """
    meta = answer.get("meta_info")
    if not isinstance(meta, Mapping):
        raise _unusable("an answer has no meta_info")
    reason = meta.get("finish_reason")
    if isinstance(reason, Mapping) and reason.get("type") == "abort":
        raise _unusable(f"a request was aborted: {reason.get('message')}")
    held = meta.get("weight_version")
    if held != word:
        raise WeightSyncError(
            f"the server at rollout.server_url sampled with the weights '{held}', the actor's are '{word}'",
            hint="another run uses the same server, or it was started again: give each run a server of its own",
        )
    pairs = meta.get("output_token_logprobs")
    if not isinstance(pairs, list) or not 1 <= len(pairs) <= longest:
        got = f"{len(pairs)} tokens" if isinstance(pairs, list) else repr(pairs)
        raise _unusable(f"an answer has {got}, wanted are 1 to {longest} pairs of log-probability and token")
    try:
        # JSON has no NaN: the server sends null for it.
        return [int(pair[1]) for pair in pairs], [float("nan") if pair[0] is None else float(pair[0]) for pair in pairs]
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise _unusable(f"an answer's output_token_logprobs are no pairs: {pairs[:1]}") from error


def _unusable(message: str) -> EngineError:
    return EngineError(f"the SGLang server's answer cannot be used: {message}", hint="see the server's own log")


def _on(response: Response, device: torch.device) -> Response:
    return Response(
        tokens=response.tokens.to(device),
        mask=response.mask.to(device),
        logprobs=response.logprobs.to(device),
        truncated=response.truncated.to(device),
        policy_version=response.policy_version,
    )
