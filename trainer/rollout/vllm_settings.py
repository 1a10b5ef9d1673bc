"""What vLLM is told: environment variables before its import, and the arguments of its engine. Imports no vLLM."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from trainer.config import Config
from trainer.distributed import World

_GIB = 2**30


def set_environment(team_name: str | None = None) -> None:
    """Set what vLLM reads when it is imported; what a person has exported stays, but for what the trainer needs.

    Args:
        team_name: What the ranks of one engine call themselves on this machine; None when it is held by one.
    """
    if team_name is not None:
        os.environ["VLLM_DIST_IDENT"] = team_name
    # In this process: the weights are handed over as tensors, and nothing outlives the trainer.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    for name, value in {
        # Without it vLLM sets the trainer's torch, too, to one thread.
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_LOGGING_STREAM": "ext://sys.stderr",
        "VLLM_NO_USAGE_STATS": "1",
    }.items():
        os.environ.setdefault(name, value)
    if os.environ.get("LOCAL_WORLD_SIZE", "1") == os.environ.get("WORLD_SIZE", "1"):
        os.environ.setdefault("VLLM_HOST_IP", "127.0.0.1")  # on one machine nothing needs to be seen from outside


def sleeps(config: Config, device: torch.device) -> bool:
    """Whether the engine gives its memory back while the trainer computes: vLLM can do that on a GPU alone."""
    return device.type == "cuda" and config.rollout.enable_sleep_mode is not False


def engine_arguments(config: Config, directory: Path, world: World) -> dict[str, object]:
    """The arguments of `vllm.LLM`.

    Args:
        config: Reads `rollout`, `model.dtype`, the lengths of `data` and `trainer.seed`.
        directory: Holds the model's `config.json`; the weights come by sync.
        world: The trainer's ranks, of which each opens its engine; its device decides how memory is measured.
    """
    rollout, data = config.rollout, config.data
    arguments: dict[str, object] = {
        "model": str(directory),
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "dtype": rollout.dtype or config.model.dtype,
        "max_model_len": data.max_prompt_length + data.max_response_length,
        "max_num_seqs": rollout.max_batch_size,
        "max_num_batched_tokens": rollout.max_num_batched_tokens,
        "enable_chunked_prefill": rollout.enable_chunked_prefill,
        "enable_prefix_caching": rollout.enable_prefix_caching,
        "enforce_eager": bool(rollout.enforce_eager),
        # The probabilities that the token was drawn with: after the temperature.
        "logprobs_mode": "processed_logprobs",
        # A model's own generation_config would bring top_p and top_k along, which bias every ratio.
        "generation_config": "vllm",
        "trust_remote_code": config.model.trust_remote_code,
        "seed": config.trainer.seed,
        "tensor_parallel_size": rollout.tensor_model_parallel_size or 1,
        # With several ranks vLLM joins the trainer's process group instead of making one of its own.
        "distributed_executor_backend": "external_launcher" if world.size > 1 else None,
        "enable_sleep_mode": sleeps(config, world.device) or None,
    }
    if rollout.tensor_model_parallel_size not in (None, 1) and world.device.type == "cpu":
        arguments["worker_cls"] = "trainer.rollout.vllm_worker.NamedCPUWorker"
    if rollout.gpu_memory_utilization is not None:
        arguments["gpu_memory_utilization"] = rollout.gpu_memory_utilization
    elif world.device.type == "cpu":
        arguments["kv_cache_memory_bytes"] = _GIB
    else:
        arguments["gpu_memory_utilization"] = 0.3
    return {name: value for name, value in arguments.items() if value is not None}
