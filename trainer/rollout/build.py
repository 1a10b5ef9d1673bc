"""Build the rollout engine that a configuration names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from trainer.config import Config, RolloutConfig
from trainer.data import Tokenizer
from trainer.distributed import World
from trainer.rollout.build_sglang import build_sglang
from trainer.rollout.build_vllm import build_vllm
from trainer.rollout.engine import RolloutEngine
from trainer.rollout.hf import HfEngine

if TYPE_CHECKING:
    from trainer.models import Networks


def needs_sampler(config: RolloutConfig) -> bool:
    """Whether the engine wants a whole copy of the actor in this process."""
    return config.name == "hf" or config.sync_tolerance is not None


def build_engine(config: Config, networks: Networks, tokenizer: Tokenizer, world: World) -> RolloutEngine:
    """The engine, without weights until the first sync; all ranks build theirs together.

    Raises:
        ConfigError: The engine is not installed, or cannot run this model here.
    """
    return ENGINES[config.rollout.name](config, networks, tokenizer, world)


def _hf(config: Config, networks: Networks, tokenizer: Tokenizer, world: World) -> RolloutEngine:
    del world
    assert networks.sampler is not None
    return HfEngine(
        networks.sampler,
        pad_id=tokenizer.pad_id,
        end_id=tokenizer.end_id,
        max_batch_size=config.rollout.max_batch_size,
    )


ENGINES: dict[str, Callable[[Config, Networks, Tokenizer, World], RolloutEngine]] = {
    "hf": _hf,
    "vllm": build_vllm,
    "sglang": build_sglang,
}
