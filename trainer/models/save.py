"""Write a network in Hugging Face format, so that `from_pretrained` and vLLM load it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from trainer.data import CharTokenizer, HfTokenizer, Tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def save_hf(model: PreTrainedModel, weights: Mapping[str, Tensor], tokenizer: Tokenizer, directory: Path) -> None:
    """Write `config.json`, `model.safetensors` and the tokenizer.

    Args:
        model: The network; its configuration is written.
        weights: Whole tensors under the names of the plain network (see `merged`).
        tokenizer: Its tokenizer.
        directory: Where; must exist.
    """
    # Tied weights have one name among parameters; the language-model head is found by the configuration.
    model.save_pretrained(directory, state_dict={name: tensor.contiguous() for name, tensor in weights.items()})
    if isinstance(tokenizer, HfTokenizer):
        tokenizer.inner.save_pretrained(directory)
    elif isinstance(tokenizer, CharTokenizer):
        _save_characters(tokenizer, directory)


def _save_characters(tokenizer: CharTokenizer, directory: Path) -> None:
    """The same tokens as a tokenizer of the `tokenizers` library: one per character."""
    from tokenizers import Regex, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Inner
    from transformers import PreTrainedTokenizerFast

    pad, end = "<pad>", "<end>"
    vocabulary = {pad: tokenizer.pad_id, end: tokenizer.end_id}
    vocabulary |= {char: tokenizer.encode(char)[0] for char in tokenizer.alphabet}
    inner = Inner(models.WordLevel(vocab=vocabulary, unk_token=pad))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    inner.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=inner, pad_token=pad, eos_token=end).save_pretrained(directory)


def write_note(directory: Path, note: Mapping[str, object]) -> None:
    """Say in `training.json` where exported weights come from."""
    (directory / "training.json").write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
