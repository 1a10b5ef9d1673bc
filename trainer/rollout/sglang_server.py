"""Launch an SGLang server of our own, which lives and dies with this process."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.config import Config
from trainer.failures import EngineError
from trainer.signals import die_with_parent

if TYPE_CHECKING:
    import torch

    from trainer.rollout.sglang_client import SglangClient

_HOST = "127.0.0.1"
_TAIL = 2000  # characters of the server's log in a message
_PATIENCE_S = 10.0  # for the server to end by itself


def is_installed() -> bool:
    """Whether a server can be launched here."""
    return importlib.util.find_spec("sglang") is not None


def server_arguments(config: Config, model: Path, port: int, device: torch.device) -> list[str]:
    """The arguments of `python -m sglang.launch_server`.

    Args:
        config: Reads `rollout`, `model.dtype`, the lengths of `data` and `trainer.seed`.
        model: Holds the model's `config.json`; the weights come by sync.
        port: On the loopback interface.
        device: The trainer's.
    """
    rollout, data = config.rollout, config.data
    values: dict[str, object] = {
        "--model-path": model,
        "--load-format": "dummy",
        "--host": _HOST,
        "--port": port,
        "--device": device.type,
        "--dtype": rollout.dtype or config.model.dtype,
        "--context-length": data.max_prompt_length + data.max_response_length,
        "--max-running-requests": rollout.max_batch_size,
        "--random-seed": config.trainer.seed,
        "--tp-size": rollout.tensor_model_parallel_size or 1,
        "--mem-fraction-static": rollout.gpu_memory_utilization or (0.3 if device.type == "cuda" else None),
        "--chunked-prefill-size": -1 if rollout.enable_chunked_prefill is False else rollout.max_num_batched_tokens,
        "--max-prefill-tokens": rollout.max_num_batched_tokens,
    }
    flags = {
        "--skip-tokenizer-init": True,
        # Without it the server ignores the seed of a request.
        "--enable-deterministic-inference": True,
        "--disable-radix-cache": rollout.enable_prefix_caching is False,
        "--disable-cuda-graph": rollout.enforce_eager is True,
        "--trust-remote-code": config.model.trust_remote_code,
    }
    arguments = [str(part) for name, value in values.items() if value is not None for part in (name, value)]
    return [*arguments, *(name for name, wanted in flags.items() if wanted)]


class OwnServer:
    """A server that ends when this process ends, however that happens.

    Args:
        arguments: See `server_arguments`.
        log: Where its output goes.
    """

    def __init__(self, arguments: list[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sglang.launch_server", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={key: value for key, value in os.environ.items() if key not in _RANK_VARIABLES},
                # A group of its own: asked to stop, the trainer still finishes its step with the server's help.
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        atexit.register(self.stop)

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def wait_until_up(self, client: SglangClient) -> None:
        """Wait until it generates.

        Raises:
            EngineError: It ended, or took too long; the message holds the end of its log.
        """
        try:
            client.wait_until_up()
        except EngineError as error:
            self.stop()
            tail = self._log.read_text(errors="replace")[-_TAIL:]
            said = f"its log ends with: {tail}" if tail.strip() else "its log is empty"
            raise EngineError(f"{error}; {said}", hint=error.hint) from error

    def stop(self) -> None:
        """End it, gently first."""
        if self.is_alive():
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE_S)
        if self.is_alive():
            self._process.kill()
            self._process.wait()


# What torchrun tells a rank; the server has ranks of its own.
_RANK_VARIABLES = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"}


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def url_of(port: int) -> str:
    """Where a server of our own listens."""
    return f"http://{_HOST}:{port}"
