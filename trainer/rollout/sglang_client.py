"""The few calls of SGLang's HTTP API that a rollout needs, and what can go wrong with each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx2

from trainer.failures import EngineError, WeightSyncError
from trainer.rollout.engine import Request, Sampling

_POLL_S = 0.5


class SglangClient:
    """Talks to one server.

    Args:
        url: `http://host:port`.
        timeout_s: Longest wait for one answer, and for the server to be up (seconds).
        is_alive: Whether waiting still makes sense; a server of our own may have died.
    """

    def __init__(self, url: str, *, timeout_s: float, is_alive: Callable[[], bool] = lambda: True) -> None:
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._is_alive = is_alive
        # The environment's proxies are for the internet, not for an engine on the cluster.
        self._http = httpx2.Client(base_url=self._url, timeout=timeout_s, trust_env=False)

    def wait_until_up(self) -> None:
        """Wait until the server generates.

        Raises:
            EngineError: It does not within the timeout, or it has died.
        """
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                if self._http.get("/health_generate", timeout=min(30.0, self._timeout_s)).status_code == 200:
                    return
            except httpx2.TransportError:
                pass  # not listening yet
            if not self._is_alive():
                raise EngineError("the SGLang server ended while it started", hint="its log says why")
            if time.monotonic() >= deadline:
                raise EngineError(
                    f"no SGLang server answers at {self._url} within {self._timeout_s:g} s",
                    hint="check rollout.server_url, or raise rollout.server_timeout_s",
                )
            time.sleep(_POLL_S)

    def update_weights(self, directory: Path, word: str) -> None:
        """Have the server load a model directory, and call its weights `word` from now on.

        Raises:
            EngineError: The server does not answer.
            WeightSyncError: It refuses, for example because it does not see the directory or runs another model.
        """
        wanted = {
            "model_path": str(directory.absolute()),
            # Without it a server that began with dummy weights would make up new ones.
            "load_format": "auto",
            "weight_version": word,
            "flush_cache": True,
        }
        answer = self._post("/update_weights_from_disk", wanted)
        told = _json(answer)
        if answer.status_code != 200 or not isinstance(told, Mapping) or told.get("success") is not True:
            raise WeightSyncError(
                f"the SGLang server at {self._url} did not take the weights in '{directory}': {_said(answer)}",
                hint="it must run the same model and see that directory: set rollout.sync_dir to one that both see",
            )

    def flush_cache(self) -> None:
        """Have the server forget every cached prefix.

        Raises:
            EngineError: The server does not answer.
            WeightSyncError: It refuses.
        """
        answer = self._post("/flush_cache", None)
        if answer.status_code != 200:
            raise WeightSyncError(
                f"the SGLang server at {self._url} did not flush its cache: {_said(answer)}",
                hint="requests of somebody else are running: give each run a server of its own",
            )

    def generate(self, requests: Sequence[Request], sampling: Sampling, end_id: int) -> Sequence[Mapping[str, object]]:
        """One answer per request, in their order.

        Raises:
            EngineError: The server does not answer, or not with as many answers as were asked for.
        """
        asked = {
            "input_ids": [list(request.prompt) for request in requests],
            "sampling_params": [_parameters(request, sampling, end_id) for request in requests],
            "return_logprob": True,
            "logprob_start_len": -1,  # of the response's tokens alone
            "top_logprobs_num": 0,
            "stream": False,
        }
        answer = self._post("/generate", asked)
        told = _json(answer)
        if answer.status_code != 200:
            raise EngineError(f"the SGLang server at {self._url} refused to generate: {_said(answer)}")
        if not isinstance(told, list) or not all(isinstance(item, Mapping) for item in told):
            raise EngineError(f"the SGLang server at {self._url} sent no list of answers: {_said(answer)}")
        if len(told) != len(requests):
            raise EngineError(
                f"the SGLang server at {self._url} sent {len(told)} answers to {len(requests)} requests",
                hint="it must answer a batch in order: see the server's own log",
            )
        return told

    def _post(self, path: str, body: object) -> httpx2.Response:
        try:
            return self._http.post(path, json=body) if body is not None else self._http.post(path)
        except httpx2.TimeoutException as error:
            raise EngineError(
                f"the SGLang server at {self._url} did not answer {path} within {self._timeout_s:g} s",
                hint="raise rollout.server_timeout_s, or look at the server's log",
            ) from error
        except httpx2.TransportError as error:
            raise EngineError(
                f"the SGLang server at {self._url} is away ({path}: {type(error).__name__}: {error})",
                hint="look at the server's log; the run can be started again and resumes",
            ) from error


def _parameters(request: Request, sampling: Sampling, end_id: int) -> dict[str, object]:
    return {
        "temperature": sampling.temperature,
        "max_new_tokens": sampling.max_tokens,
        "stop_token_ids": [end_id],
        # Not ignore_eos: SGLang would ignore stop_token_ids with it.
        "skip_special_tokens": False,
        # A model's own defaults would bias every ratio.
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "sampling_seed": request.seed,
    }


def _json(answer: httpx2.Response) -> object:
    try:
        return answer.json()
    except ValueError:
        return None


def _said(answer: httpx2.Response) -> str:
    return f"{answer.status_code} {' '.join(answer.text.split())[:300]}"
