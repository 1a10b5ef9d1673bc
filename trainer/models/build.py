"""Build actor, reference, critic and the rollout's copy from the same starting weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trainer.config import Config
from trainer.data import CharTokenizer, Example
from trainer.models.cache import cached_weights
from trainer.models.critic import Critic
from trainer.models.lean import llama
from trainer.models.tiny import llama_config, new_llama
from trainer.models.warm_start import warm_start

if TYPE_CHECKING:
    from transformers import LlamaConfig, LlamaForCausalLM

_RECIPE = 1  # raise when the warm start or a task changes, so that old cache entries are left alone


@dataclass(frozen=True, kw_only=True, slots=True)
class Networks:
    """The networks of a run, not yet sharded.

    Attributes:
        actor: The policy that is trained.
        reference: The policy that the KL is measured against; frozen.
        critic: The value network.
        sampler: A copy of the actor for the rollout engine; its weights come by sync only.
    """

    actor: LlamaForCausalLM
    reference: LlamaForCausalLM
    critic: Critic
    sampler: LlamaForCausalLM


def build_networks(
    config: Config, examples: Sequence[Example], tokenizer: CharTokenizer, device: torch.device
) -> Networks:
    """All networks on `device`, each starting from the warm-started weights."""
    shape = llama_config(
        config.model, tokenizer.vocab_size, config.data.max_prompt_length + config.data.max_response_length
    )
    weights = initial_weights(config, shape, examples, tokenizer)

    def copy_of_start() -> LlamaForCausalLM:
        model = _empty_llama(shape, device)
        model.load_state_dict(weights)
        return model.eval()

    actor, reference, sampler, backbone = (copy_of_start() for _ in range(4))
    reference.requires_grad_(False)
    sampler.requires_grad_(False)
    critic = Critic(backbone.model, config.model.hidden_size).to(device)
    if config.model.enable_gradient_checkpointing:
        for model in (actor, critic.backbone):
            # Recomputing applies in training mode only; the model has no dropout, so nothing else changes with it.
            model.gradient_checkpointing_enable({"use_reentrant": False})
            model.train()
    return Networks(actor=actor, reference=reference, critic=critic, sampler=sampler)


def initial_weights(
    config: Config, shape: LlamaConfig, examples: Sequence[Example], tokenizer: CharTokenizer
) -> dict[str, Tensor]:
    """The weights that every network starts from, from the cache when they were built before."""

    def make() -> dict[str, Tensor]:
        model = new_llama(shape, config.model.warm_start.seed)
        warm_start(model, examples, tokenizer, config.model.warm_start)
        return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    ingredients = {
        "recipe": _RECIPE,
        "torch": torch.__version__,
        "shape": [
            config.model.hidden_size,
            config.model.intermediate_size,
            config.model.num_layers,
            config.model.num_heads,
        ],
        "warm_start": dataclasses.asdict(config.model.warm_start),
        "data": dataclasses.asdict(config.data),
    }
    return cached_weights(ingredients, make)


def _empty_llama(shape: LlamaConfig, device: torch.device) -> LlamaForCausalLM:
    with torch.random.fork_rng(devices=[]), torch.device(device):
        return llama().LlamaForCausalLM(shape)
