"""Load tokenizer and networks of a pretrained model."""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING

import torch

from trainer.config import Config, ConfigError, ConfigProblem
from trainer.data import HfTokenizer
from trainer.models.critic import Critic
from trainer.models.source import Source, actor_source, critic_source, read_shape
from trainer.models.unpadded import allow_unpadded

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

_FORWARD = ("attention_mask", "position_ids", "past_key_values", "use_cache", "logits_to_keep")


def load_hf_tokenizer(config: Config) -> HfTokenizer:
    """The tokenizer of `model.path`.

    Raises:
        ConfigError: The model or its tokenizer cannot be used.
    """
    from transformers import AutoTokenizer

    source = actor_source(config.model)
    read_shape(source)  # a model that needs code of its own is refused with its own message
    try:
        inner = AutoTokenizer.from_pretrained(source.path, trust_remote_code=source.trust_remote_code)
    except Exception as error:  # transformers raises many kinds; each means that there is no tokenizer
        message = f"cannot load the tokenizer of '{source.path}': {type(error).__name__}: {error}"
        raise source.refusal(message, "save the tokenizer in the model's directory") from error
    if inner.eos_token_id is None:
        raise source.refusal(f"the tokenizer of '{source.path}' has no end token", "set its eos_token")
    return HfTokenizer(inner=inner)


def load_actor(config: Config, tokenizer: HfTokenizer, device: torch.device) -> PreTrainedModel:
    """The language model of `model.path` in float32 (the optimizer's type), in evaluation mode.

    Raises:
        ConfigError: It cannot be loaded, or does not fit the tokenizer or the lengths.
    """
    return _load(actor_source(config.model), config, tokenizer, device)


def load_critic(config: Config, tokenizer: HfTokenizer, device: torch.device, actor: PreTrainedModel) -> Critic:
    """A critic on the transformer of `model.critic_path`, or on a copy of the actor's.

    Raises:
        ConfigError: It cannot be loaded, or does not fit the tokenizer or the lengths.
    """
    source = critic_source(config.model)
    model = copy.deepcopy(actor) if source is None else _load(source, config, tokenizer, device)
    if source is not None and config.trainer.use_remove_padding:
        allow_unpadded(model)
    return Critic(model.base_model, model.config.get_text_config().hidden_size).to(device)


def _load(source: Source, config: Config, tokenizer: HfTokenizer, device: torch.device) -> PreTrainedModel:
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # a trial's log is read by people
    shape = read_shape(source)
    _check_lengths(source, shape, config)
    try:
        model = AutoModelForCausalLM.from_pretrained(
            source.path,
            config=shape,
            dtype=torch.float32,
            attn_implementation="sdpa",
            trust_remote_code=source.trust_remote_code,
        )
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # transformers raises many kinds; each means that this model cannot be used
        text = " ".join(str(error).split())[:300]
        message = f"cannot load '{source.path}': {type(error).__name__}: {text}"
        raise source.refusal(message, "it must be a causal language model in Hugging Face format") from error
    _check_use(source, model, tokenizer)
    return model.to(device).eval()


def _check_lengths(source: Source, shape: PretrainedConfig, config: Config) -> None:
    longest = getattr(shape.get_text_config(), "max_position_embeddings", None)
    wanted = config.data.max_prompt_length + config.data.max_response_length
    if isinstance(longest, int) and wanted > longest:
        message = (
            f"max_prompt_length {config.data.max_prompt_length} + max_response_length "
            f"{config.data.max_response_length} = {wanted}, but '{source.path}' reads at most {longest} tokens"
        )
        raise ConfigError([ConfigProblem(path="data.max_response_length", message=message, hint="lower one of them")])


def _check_use(source: Source, model: PreTrainedModel, tokenizer: HfTokenizer) -> None:
    rows = model.get_input_embeddings().num_embeddings
    if tokenizer.vocab_size > rows:
        message = f"'{source.path}' has {rows} token embeddings, but the tokenizer has {tokenizer.vocab_size} tokens"
        raise source.refusal(message, "resize the model's embeddings, or use its own tokenizer")
    missing = [name for name in _FORWARD if name not in inspect.signature(model.forward).parameters]
    if missing:
        message = f"the forward pass of {type(model).__name__} takes no {', '.join(missing)}"
        raise source.refusal(message, "use a decoder-only language model")
