"""The model's files, before anything large is loaded from them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from autotune.errors import Problem
from autotune.preflight.memory.models import BUILT_IN, FoundModel, find_model
from autotune.preflight.trial.context import TrialContext

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "*.gguf")


def model(trial: TrialContext) -> Iterator[Problem]:
    """Whether the model is there, may run its code, has weights and a tokenizer that fits."""
    path = trial.config.get(trial.model_key)
    if not isinstance(path, str) or path in BUILT_IN or not trial.here:
        return
    found = find_model(path)
    if found.directory is None:
        if Path(path).is_absolute() or path.startswith((".", "~")):
            hint = "Write the absolute path of a directory in Hugging Face format, or a name on the Hub."
            yield Problem(message=f"there is no model directory '{path}'.", hint=hint, path=trial.model_key)
        return  # a name on the Hub, which the trial downloads
    if found.missing:
        hint = "Give a model in Hugging Face format: config.json, *.safetensors and the tokenizer's files."
        yield Problem(message=f"{found.missing}.", hint=hint, path=trial.model_key)
        return
    yield from _code(trial, path, found)
    yield from _files(trial, path, found.directory)
    yield from _vocabulary(trial, path, found)


def _code(trial: TrialContext, path: str, found: FoundModel) -> Iterator[Problem]:
    """A model that brings its own Python classes cannot be loaded without leave to run them."""
    key = trial.model_key.replace(".path", ".trust_remote_code")
    if not found.config.get("auto_map") or trial.config.get(key) is True:
        return
    names = found.config.get("architectures")
    name = names[0] if isinstance(names, list) and names else "its model class"
    yield Problem(
        message=f"'{path}' brings Python code of its own ({name}), and {key} is false, so it cannot be loaded.",
        hint=f"Read that code; if you trust it, set {key}: true.",
        path=key,
    )


def _files(trial: TrialContext, path: str, directory: Path) -> Iterator[Problem]:
    if not any(any(directory.glob(pattern)) for pattern in _WEIGHTS):
        hint = "Download the whole model, or save it with save_pretrained."
        yield Problem(message=f"'{path}' holds no weights.", hint=hint, path=trial.model_key)
    if not any((directory / name).is_file() for name in _TOKENIZERS):
        hint = f"Save the tokenizer there; one of these belongs to it: {', '.join(_TOKENIZERS)}."
        yield Problem(message=f"'{path}' holds no tokenizer.", hint=hint, path=trial.model_key)


def _vocabulary(trial: TrialContext, path: str, found: FoundModel) -> Iterator[Problem]:
    tokens = tokenizer_size(found.directory) if found.directory is not None else None
    if found.shape is None or tokens is None or tokens <= found.shape.vocab:
        return
    yield Problem(
        message=f"'{path}' has {found.shape.vocab} token embeddings, but its tokenizer has {tokens} tokens.",
        hint="Resize the model's embeddings, or use the tokenizer that it was trained with.",
        path=trial.model_key,
    )


def tokenizer_size(directory: Path) -> int | None:
    """One more than the largest token id in `tokenizer.json`; None without such a file."""
    try:
        read = json.loads((directory / "tokenizer.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    part = read.get("model") if isinstance(read, dict) else None
    words = part.get("vocab") if isinstance(part, dict) else None
    ids = [value for value in words.values() if isinstance(value, int)] if isinstance(words, Mapping) else []
    if isinstance(words, list):
        ids = [len(words) - 1]
    added = read.get("added_tokens") if isinstance(read, dict) else None
    ids += [item["id"] for item in added or () if isinstance(item, dict) and isinstance(item.get("id"), int)]
    return max(ids) + 1 if ids else None
