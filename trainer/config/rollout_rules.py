"""Rules about the rollout engine: which keys it reads, and what the rest of the configuration must grant it."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlsplit

from trainer.config.problems import ConfigProblem
from trainer.config.schema import Config

_ENGINE = (
    "dtype",
    "tensor_model_parallel_size",
    "gpu_memory_utilization",
    "max_num_batched_tokens",
    "enable_chunked_prefill",
    "enable_prefix_caching",
    "enforce_eager",
    "sync_tolerance",
)
_SERVER = ("server_url", "server_timeout_s", "sync_dir")
# The keys that an engine reads beyond name, temperature, n and max_batch_size; null for all others.
ENGINE_KEYS: dict[str, tuple[str, ...]] = {
    "hf": (),
    "vllm": (*_ENGINE, "device", "enable_sleep_mode"),
    "sglang": (*_ENGINE, *_SERVER),
}
_LAUNCH = tuple(key for key in _ENGINE if key != "sync_tolerance")  # decided by whoever launches a server
VLLM_MAX_LORA_RANK = 512  # the largest of vLLM's MaxLoRARanks
_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


def rollout_problems(config: Config) -> list[ConfigProblem]:
    """Every rule about `rollout` that this configuration breaks."""
    return [problem for rule in _RULES for problem in rule(config)]


def rollout_world_problems(config: Config, world_size: int) -> list[ConfigProblem]:
    """What only the number of ranks can tell."""
    rollout = config.rollout
    if rollout.name != "vllm":
        return []
    problems = []
    size = rollout.tensor_model_parallel_size or 1
    if world_size % size:
        message = f"got {size}, but {world_size} ranks cannot be split into groups of {size}"
        fitting = max(number for number in range(1, min(size, world_size) + 1) if world_size % number == 0)
        hint = f"use {fitting}, or start a multiple of {size} ranks"
        problems.append(ConfigProblem(path="rollout.tensor_model_parallel_size", message=message, hint=hint))
    if rollout.device is not None and ":" in rollout.device and (world_size > 1 or rollout.device != "cuda:0"):
        strategy = config.trainer.fsdp_config.sharding_strategy
        message = (
            f"got {rollout.device!r}, but trainer.fsdp_config.sharding_strategy = {strategy} keeps the weights on "
            f"{'cuda:0' if world_size == 1 else f'cuda:0 to cuda:{world_size - 1}'}, and each rank's engine runs where "
            "its weights are"
        )
        hint = "use auto: each rank's own GPU"
        problems.append(ConfigProblem(path="rollout.device", message=message, hint=hint))
    return problems


def _keys_of_others(config: Config) -> list[ConfigProblem]:
    rollout = config.rollout
    read = ENGINE_KEYS[rollout.name]
    problems = []
    for name in dict.fromkeys(key for keys in ENGINE_KEYS.values() for key in keys):
        if name in read or getattr(rollout, name) is None:
            continue
        message = f"got {getattr(rollout, name)!r}, but rollout.name = {rollout.name} does not read it"
        readers = " or ".join(f"rollout={engine}" for engine, keys in ENGINE_KEYS.items() if name in keys)
        hint = f"choose the option {readers}, or set it to null"
        problems.append(ConfigProblem(path=f"rollout.{name}", message=message, hint=hint))
    return problems


def _token_budget(config: Config) -> list[ConfigProblem]:
    rollout, data = config.rollout, config.data
    longest, budget = data.max_prompt_length + data.max_response_length, rollout.max_num_batched_tokens
    if budget is not None and budget < rollout.max_batch_size:
        message = f"got {budget}, but each of rollout.max_batch_size = {rollout.max_batch_size} sequences needs a token"
        hint = f"raise it to {rollout.max_batch_size}, or lower rollout.max_batch_size"
        return [ConfigProblem(path="rollout.max_num_batched_tokens", message=message, hint=hint)]
    if budget is None or budget >= longest or rollout.enable_chunked_prefill is not False:
        return []
    message = (
        f"got {budget}, but a sequence may have {longest} tokens, and without chunked prefill it must fit in one batch"
    )
    hint = f"raise it to {longest}, or set rollout.enable_chunked_prefill=true"
    return [ConfigProblem(path="rollout.max_num_batched_tokens", message=message, hint=hint)]


def _device(config: Config) -> list[ConfigProblem]:
    ours, theirs = config.system.device, config.rollout.device
    if theirs is None or config.rollout.name != "vllm":
        return []
    if not _DEVICE.fullmatch(theirs):
        message = f"got {theirs!r}, must be auto, cpu, cuda or cuda:<number>"
        return [ConfigProblem(path="rollout.device", message=message, hint="auto is the trainer's device")]
    if "auto" in (ours, theirs) or theirs.partition(":")[0] == ours:
        return []
    message = (
        f"got {theirs!r}, but system.device = {ours}: the engine runs in the trainer's process and takes over its "
        "weights where they are"
    )
    return [ConfigProblem(path="rollout.device", message=message, hint="use auto, or change system.device")]


def _heads(config: Config) -> list[ConfigProblem]:
    size, heads = config.rollout.tensor_model_parallel_size, config.model.num_heads
    if size is None or heads is None or heads % size == 0:
        return []
    message = f"got {size}, must divide model.num_heads = {heads}: each part computes whole attention heads"
    fitting = max(number for number in range(1, size + 1) if heads % number == 0)
    return [
        ConfigProblem(path="rollout.tensor_model_parallel_size", message=message, hint=f"{fitting} would do"),
    ]


def _lora_rank(config: Config) -> list[ConfigProblem]:
    rank = config.model.lora_rank
    if config.rollout.name != "vllm" or rank <= VLLM_MAX_LORA_RANK:
        return []
    message = (
        f"got {rank}, but rollout.name = vllm, and vLLM knows adapters of rank 1 to {VLLM_MAX_LORA_RANK}: "
        "it could not serve what this run trains"
    )
    hint = f"use at most {VLLM_MAX_LORA_RANK}, or 0 to train all weights"
    return [ConfigProblem(path="model.lora_rank", message=message, hint=hint)]


def _server(config: Config) -> list[ConfigProblem]:
    rollout = config.rollout
    if rollout.name != "sglang":
        return []
    problems = []
    if rollout.server_timeout_s is None:
        message = "is null, but rollout.name = sglang needs it"
        problems.append(ConfigProblem(path="rollout.server_timeout_s", message=message, hint="600 is usual"))
    if rollout.server_url is None:
        return problems
    address = urlsplit(rollout.server_url)
    if address.scheme not in ("http", "https") or not address.hostname or address.path.strip("/"):
        message = f"got {rollout.server_url!r}, must be http://host:port"
        hint = "for example http://127.0.0.1:30000; null launches a server"
        problems.append(ConfigProblem(path="rollout.server_url", message=message, hint=hint))
    for name in _LAUNCH:
        if getattr(rollout, name) is not None:
            message = f"got {getattr(rollout, name)!r}, but the server at {rollout.server_url} was launched without it"
            hint = "set it to null and give it to the server when it is launched"
            problems.append(ConfigProblem(path=f"rollout.{name}", message=message, hint=hint))
    return problems


_RULES: tuple[Callable[[Config], list[ConfigProblem]], ...] = (
    _keys_of_others,
    _token_budget,
    _device,
    _heads,
    _lora_rank,
    _server,
)
