"""What vLLM is told: environment variables before its import, and the arguments of its engine. Imports no vLLM."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from trainer.config import Config

_GIB = 2**30


def set_environment() -> None:
    """Set what vLLM reads when it is imported; what a person has exported stays, but for what the trainer needs."""
    # In this process: the weights are handed over as tensors, and nothing outlives the trainer.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    for name, value in {
        # Without it vLLM sets the trainer's torch, too, to one thread.
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_LOGGING_STREAM": "ext://sys.stderr",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_HOST_IP": "127.0.0.1",
    }.items():
        os.environ.setdefault(name, value)


def engine_arguments(config: Config, directory: Path, device: torch.device) -> dict[str, object]:
    """The arguments of `vllm.LLM`.

    Args:
        config: Reads `rollout`, `model.dtype`, the lengths of `data` and `trainer.seed`.
        directory: Holds the model's `config.json`; the weights come by sync.
        device: The trainer's; decides how memory for the key-value cache is measured.
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
    }
    if rollout.gpu_memory_utilization is not None:
        arguments["gpu_memory_utilization"] = rollout.gpu_memory_utilization
    elif device.type == "cpu":
        arguments["kv_cache_memory_bytes"] = _GIB
    else:
        arguments["gpu_memory_utilization"] = 0.3
    return {name: value for name, value in arguments.items() if value is not None}
