"""A reward model: a sequence classifier in Hugging Face format, such as a BERT, with its own tokenizer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trainer.config import ConfigError, ConfigProblem, RewardModelConfig
from trainer.console import say
from trainer.data import Example
from trainer.failures import NonFiniteError
from trainer.models import Source, classifier_source, read_shape

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelReward:
    """A frozen classifier; a response is worth the logit of one label.

    It reads text: the actor's tokens are decoded and its own tokenizer reads them again, so that the two need have
    nothing in common.

    Attributes:
        model: The classifier, whole on every rank.
        tokenizer: Its tokenizer.
        label: Which logit counts.
        settings: Sizes and form of the input.
        max_length: Longest input (tokens); of a longer one the beginning is cut off.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    label: int
    settings: RewardModelConfig
    max_length: int

    @torch.no_grad()
    def all(self, examples: Sequence[Example], responses: Sequence[str]) -> list[float]:
        """What each response is worth.

        Raises:
            NonFiniteError: The model answers with NaN or an infinity.
        """
        size = self.settings.batch_size
        # Inputs of like length together: less padding, and the values do not depend on their company.
        order = sorted(range(len(responses)), key=lambda place: len(examples[place].prompt) + len(responses[place]))
        values = [0.0] * len(responses)
        for start in range(0, len(order), size):
            part = order[start : start + size]
            logits = self._logits([examples[place].prompt for place in part], [responses[place] for place in part])
            for place, value in zip(part, logits.tolist(), strict=True):
                values[place] = value
        for example, response, value in zip(examples, responses, values, strict=True):
            if not math.isfinite(value):
                raise NonFiniteError(
                    f"the reward model answers {value} for the prompt {example.prompt!r} and the response {response!r}",
                    hint="use reward.model.dtype: float32, or look at the model's weights",
                )
        return values

    def _logits(self, prompts: list[str], responses: list[str]) -> Tensor:
        if self.settings.input == "pair":
            texts: tuple[list[str], ...] = (prompts, responses)
        elif self.settings.input == "response":
            texts = (responses,)
        else:
            texts = ([prompt + response for prompt, response in zip(prompts, responses, strict=True)],)
        inputs = self.tokenizer(
            *texts, truncation="longest_first", max_length=self.max_length, padding=True, return_tensors="pt"
        )
        logits: Tensor = self.model(**inputs.to(self.model.device)).logits
        return logits[:, self.label].float()


def load_reward_model(
    path: str, label: int | None, config: RewardModelConfig, device: torch.device, *, keys: tuple[str, str]
) -> ModelReward:
    """Load a classifier and its tokenizer, frozen.

    Args:
        path: Its directory, or its name on the Hugging Face Hub.
        label: Which logit counts; None where there is only one.
        config: Sizes, type and place.
        device: Where the run's tensors live; `config.device` decides otherwise.
        keys: The configuration keys of path and label, for messages.

    Raises:
        ConfigError: It cannot be loaded, its head has no weights, or the label is missing or unknown.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()  # a trial's log is read by people
    source = classifier_source(keys[0], path, trust_remote_code=config.trust_remote_code)
    shape = read_shape(source)
    options = {"trust_remote_code": source.trust_remote_code}
    try:
        tokenizer = AutoTokenizer.from_pretrained(source.path, **options)
        _check_padding(source, tokenizer, shape, config)
        model, report = AutoModelForSequenceClassification.from_pretrained(
            source.path, config=shape, dtype=_DTYPES[config.dtype], output_loading_info=True, **options
        )
    except (ConfigError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # transformers raises many kinds; each means that this model cannot be used
        text = " ".join(str(error).split())[:300]
        message = f"cannot load the reward model '{path}': {type(error).__name__}: {text}"
        raise source.refusal(message, f"it must be {source.kind} in Hugging Face format") from error
    if report["missing_keys"]:
        message = f"'{path}' holds no weights for {', '.join(sorted(report['missing_keys'])[:4])}: they would be random"
        raise source.refusal(message, "give a model that was trained as a classifier, with a head of its labels")
    _check_vocabulary(source, model, tokenizer)
    model = model.to(_place(config, device)).eval().requires_grad_(False)
    longest = _longest(shape, tokenizer)
    if config.max_length is not None and config.max_length > longest:
        message = f"got {config.max_length}, but '{path}' reads at most {longest} tokens"
        problem = ConfigProblem(path="reward.model.max_length", message=message, hint="lower it, or set it to null")
        raise ConfigError([problem])
    tokenizer.truncation_side = "left"  # the end of the response is what a classifier must see
    return ModelReward(
        model=model,
        tokenizer=tokenizer,
        label=_label(label, shape, path, keys[1]),
        settings=config,
        max_length=longest if config.max_length is None else config.max_length,
    )


def _label(label: int | None, shape: PretrainedConfig, path: str, key: str) -> int:
    count = int(shape.num_labels)
    names = ", ".join(f"{index} = {name}" for index, name in sorted(shape.id2label.items())[:8])
    if label is None and count == 1:
        return 0
    if label is None:
        message = f"is null, but '{path}' has {count} labels ({names}), and one of their logits is the reward"
    elif label >= count:
        message = f"got {label}, but '{path}' has {count} labels ({names})"
    else:
        return label
    raise ConfigError([ConfigProblem(path=key, message=message, hint=f"use 0 to {count - 1}")])


def _longest(shape: PretrainedConfig, tokenizer: PreTrainedTokenizerBase) -> int:
    places = getattr(shape.get_text_config(), "max_position_embeddings", None) or 10**6
    return int(min(places, tokenizer.model_max_length))  # RoBERTa's tokenizer knows that two places are not for tokens


def _check_padding(
    source: Source, tokenizer: PreTrainedTokenizerBase, shape: PretrainedConfig, config: RewardModelConfig
) -> None:
    if tokenizer.pad_token_id is None and tokenizer.eos_token is not None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.pad_token_id is None and config.batch_size > 1:
        message = f"the tokenizer of '{source.path}' has neither padding nor end token, so texts cannot share a batch"
        raise source.refusal(message, "set its pad_token, or reward.model.batch_size to 1")
    if shape.get_text_config().pad_token_id is None:
        shape.get_text_config().pad_token_id = tokenizer.pad_token_id
        say(f"note: '{source.path}' names no padding token; its tokenizer's is used ({tokenizer.pad_token!r})")


def _check_vocabulary(source: Source, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    rows = model.get_input_embeddings().num_embeddings
    if len(tokenizer) > rows:
        message = f"'{source.path}' has {rows} token embeddings, but its tokenizer has {len(tokenizer)} tokens"
        raise source.refusal(message, "use the model's own tokenizer")


def _place(config: RewardModelConfig, device: torch.device) -> torch.device:
    if config.device == "auto":
        return device
    if config.device == "cuda" and device.type != "cuda":
        message = "got 'cuda', but the run is on a CPU"
        problem = ConfigProblem(path="reward.model.device", message=message, hint="use auto or cpu")
        raise ConfigError([problem])
    return device if config.device == "cuda" else torch.device("cpu")
