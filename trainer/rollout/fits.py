"""What every builder of an engine asks of a model, and the copy of the actor that watches the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.config import Config, ConfigError, ConfigProblem
from trainer.rollout.parity import ParityCheck

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from trainer.models import Networks


def parity_check(config: Config, networks: Networks) -> ParityCheck | None:
    """The check after every sync; None without `rollout.sync_tolerance`."""
    tolerance = config.rollout.sync_tolerance
    if networks.sampler is None or tolerance is None:
        return None
    return ParityCheck(networks.sampler, tolerance=tolerance, temperature=config.rollout.temperature)


def check_parallel_size(config: Config, shape: PretrainedConfig) -> None:
    """Refuse parts that would split an attention head.

    Raises:
        ConfigError: `rollout.tensor_model_parallel_size` does not divide the heads.
    """
    size, heads = config.rollout.tensor_model_parallel_size or 1, shape.get_text_config().num_attention_heads
    if heads % size:
        message = f"got {size}, must divide the model's {heads} attention heads: each part computes whole heads"
        fitting = max(number for number in range(1, size + 1) if heads % number == 0)
        raise refused("rollout.tensor_model_parallel_size", message, f"{fitting} would do")


def refused(key: str, message: str, hint: str) -> ConfigError:
    """One problem as an error."""
    return ConfigError([ConfigProblem(path=key, message=message, hint=hint)])
