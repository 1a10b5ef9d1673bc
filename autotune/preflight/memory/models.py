"""Find a model's `config.json` without any network, and read it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autotune.preflight.memory.shape import ModelShape, shape_of
from autotune.spec.values import FlatConfig

TINY, SMOLLM2 = "tiny", "smollm2"
BUILT_IN = (TINY, SMOLLM2)
_TINY_VOCAB = 16  # the characters of the built-in tasks, a padding and an end token; a few more or less weigh nothing
_SMOLLM2 = ModelShape(
    layers=30, hidden=576, inner=1536, heads=9, query=576, key_value=192, vocab=49152, tied=True, biases=1152
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundModel:
    """What is known of a model before anything loads it.

    Attributes:
        directory: Where it lies; None for a built-in one, or when it is not on this machine.
        config: Its `config.json`.
        shape: Its sizes; None when they are unknown.
        missing: Why there is no configuration; empty when there is one.
    """

    directory: Path | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    shape: ModelShape | None = None
    missing: str = ""


def find_model(path: str, config: FlatConfig | None = None) -> FoundModel:
    """What a `model.path` names: a built-in model, a directory, or a name in the local Hugging Face cache.

    Args:
        path: As in the configuration.
        config: The trial's configuration, which holds the sizes of the built-in `tiny`.
    """
    if path == TINY:
        return FoundModel(shape=_tiny(config or {}))
    if path == SMOLLM2:
        return FoundModel(shape=_SMOLLM2)
    directory = Path(path).expanduser()
    if not directory.is_dir():
        cached = _cached(path)
        if cached is None:
            return FoundModel(missing=f"'{path}' is neither a directory nor in the Hugging Face cache of this machine")
        directory = cached
    file = directory / "config.json"
    try:
        read = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return FoundModel(directory=directory, missing=f"'{directory}' holds no config.json")
    except (OSError, ValueError) as error:
        return FoundModel(directory=directory, missing=f"'{file}' cannot be read: {error}")
    if not isinstance(read, dict):
        return FoundModel(directory=directory, missing=f"'{file}' is no JSON object")
    return FoundModel(directory=directory, config=read, shape=shape_of(read))


def hub_cache() -> Path:
    """Where Hugging Face keeps downloaded models."""
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()


def _cached(name: str) -> Path | None:
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        return None
    root = hub_cache() / f"models--{name.replace('/', '--')}"
    try:
        snapshot = root / "snapshots" / (root / "refs" / "main").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return snapshot if snapshot.is_dir() else None


def _tiny(config: FlatConfig) -> ModelShape | None:
    names = ("hidden_size", "intermediate_size", "num_layers", "num_heads")
    sizes = [config.get(f"model.{name}") for name in names]
    hidden, inner, layers, heads = (size if isinstance(size, int) and size > 0 else 0 for size in sizes)
    if not (hidden and inner and layers and heads):
        return None
    return ModelShape(
        layers=layers,
        hidden=hidden,
        inner=inner,
        heads=heads,
        query=hidden,
        key_value=hidden,
        vocab=_TINY_VOCAB,
        tied=False,
        biases=2 * hidden,
    )
