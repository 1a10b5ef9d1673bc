"""Build actor, reference, critic and the rollout's copy."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from trainer.config import Config, ConfigError, ConfigProblem
from trainer.config.rules import TINY
from trainer.data import CharTokenizer, Example, HfTokenizer, Tokenizer, task_of, tokenizer_of
from trainer.distributed import shard
from trainer.models.cache import cached_weights
from trainer.models.critic import Critic
from trainer.models.lean import llama
from trainer.models.lora import WithoutAdapters, add_adapters
from trainer.models.pretrained import load_actor, load_critic, load_hf_tokenizer
from trainer.models.tiny import llama_config, new_llama
from trainer.models.unpadded import allow_unpadded
from trainer.models.warm_start import warm_start
from trainer.rollout import needs_sampler
from trainer.seeds import derived_seed

if TYPE_CHECKING:
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

_RECIPE = 1  # raise when the warm start or a task changes, so that old cache entries are left alone


@dataclass(frozen=True, kw_only=True, slots=True)
class Networks:
    """The networks of a run.

    Attributes:
        actor: The policy that is trained.
        reference: The policy that the KL is measured against; frozen. With adapters it is the actor without them.
        critic: The value network; None when `algorithm.adv_estimator` needs none.
        sampler: A copy of the actor for the rollout engine, whose weights come by sync only; None when the engine
            needs no copy here.
    """

    actor: PreTrainedModel
    reference: torch.nn.Module
    critic: Critic | None
    sampler: PreTrainedModel | None

    def sharded(self, mesh: DeviceMesh, config: Config) -> Networks:
        """The same networks, sharded over the ranks in place; the sampler stays whole on every rank."""
        models: list[torch.nn.Module] = [self.actor]
        if self.critic is not None:
            models.append(self.critic)
        if not isinstance(self.reference, WithoutAdapters):
            models.append(self.reference)
        for model in models:
            shard(model, blocks_of(model), mesh, config)
        return self


def load_tokenizer(config: Config) -> Tokenizer:
    """The tokenizer of the model.

    Raises:
        ConfigError: The model or its tokenizer cannot be used.
    """
    task = task_of(config)
    if config.model.path == TINY and task is not None:
        return tokenizer_of(task)
    return load_hf_tokenizer(config)


def build_networks(config: Config, examples: Sequence[Example], tokenizer: Tokenizer, device: torch.device) -> Networks:
    """All networks on `device`, not yet sharded, each from the weights that training starts with.

    Raises:
        ConfigError: A pretrained model cannot be used.
    """
    model = config.model
    actor = build_actor(config, examples, tokenizer, device, adapters=False)
    sampler = copy.deepcopy(actor).requires_grad_(False) if needs_sampler(config.rollout) else None
    if config.trainer.use_remove_padding:
        allow_unpadded(actor)
    critic = None
    if config.algorithm.needs_critic and isinstance(tokenizer, HfTokenizer):
        critic = load_critic(config, tokenizer, device, actor)
    elif config.algorithm.needs_critic:
        critic = Critic(copy.deepcopy(actor.model), actor.config.hidden_size).to(device)
    if model.lora_rank:
        _adapt_actor(actor, config)
        if critic is not None:
            add_adapters(critic.backbone, model, derived_seed("adapters", config.trainer.seed, 1))
        reference: torch.nn.Module = WithoutAdapters(actor)
    else:
        reference = copy.deepcopy(actor).requires_grad_(False)
    if model.enable_gradient_checkpointing:
        for network in (actor,) if critic is None else (actor, critic.backbone):
            # Recomputing applies in training mode only; dropout is off, so nothing else changes with it.
            network.gradient_checkpointing_enable({"use_reentrant": False})
            network.train()
    return Networks(actor=actor, reference=reference, critic=critic, sampler=sampler)


def build_actor(
    config: Config, examples: Sequence[Example], tokenizer: Tokenizer, device: torch.device, *, adapters: bool = True
) -> PreTrainedModel:
    """The actor alone, from the weights that training starts with.

    Args:
        config: The configuration.
        examples: The training prompts, for the built-in model's warm start.
        tokenizer: The model's.
        device: Where it goes.
        adapters: Add them when `model.lora_rank` says so.

    Raises:
        ConfigError: A pretrained model cannot be used.
    """
    if isinstance(tokenizer, HfTokenizer):
        actor = load_actor(config, tokenizer, device)
    else:
        actor = _warm_started(config, examples, tokenizer, device)
    if adapters and config.model.lora_rank:
        _adapt_actor(actor, config)
    return actor


def _adapt_actor(actor: PreTrainedModel, config: Config) -> None:
    width = actor.config.get_text_config().hidden_size
    if config.model.lora_rank > width:
        message = f"got {config.model.lora_rank}, but the model is {width} wide: a higher rank adds nothing"
        raise ConfigError([ConfigProblem(path="model.lora_rank", message=message, hint=f"use at most {width}")])
    add_adapters(actor, config.model, derived_seed("adapters", config.trainer.seed, 0))


def blocks_of(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The transformer blocks of a network: what a Hugging Face model says must not be split."""
    inner = [module for module in model.modules() if getattr(module, "_no_split_modules", None)]
    names = {name for module in inner for name in module._no_split_modules}
    return [module for module in model.modules() if type(module).__name__ in names]


def _warm_started(
    config: Config, examples: Sequence[Example], tokenizer: CharTokenizer, device: torch.device
) -> LlamaForCausalLM:
    longest = config.data.max_prompt_length + config.data.max_response_length
    shape = llama_config(config.model, tokenizer.vocab_size, longest)
    weights = initial_weights(config, shape, examples, tokenizer)
    model = _empty_llama(shape, device)
    model.load_state_dict(weights)
    return model.eval()


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
