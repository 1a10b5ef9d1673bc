"""Write weights as a model directory that any engine can load, a few at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors.torch import save_file
from torch import Tensor

if TYPE_CHECKING:
    from transformers import PretrainedConfig

SHARD_BYTES = 2 * 2**30


def save_shards(
    weights: Iterable[tuple[str, Tensor]], shape: PretrainedConfig, directory: Path, *, most: int = SHARD_BYTES
) -> None:
    """Write `config.json`, the weights in files of about `most` bytes, and their index.

    Only one file's weights are in memory at a time; they need not all fit.

    Args:
        weights: Name and whole tensor of each parameter.
        shape: The model's configuration.
        directory: Made if it is not there.
        most: Bytes after which the next file begins.
    """
    directory.mkdir(parents=True, exist_ok=True)
    shape.save_pretrained(directory)
    index: dict[str, str] = {}
    held: dict[str, Tensor] = {}
    size = total = 0
    for name, tensor in weights:
        held[name] = tensor.contiguous().to("cpu")
        size += held[name].nbytes
        if size >= most:
            _write(held, index, directory)
            total, size, held = total + size, 0, {}
    if held:
        _write(held, index, directory)
    metadata = {"metadata": {"total_size": total + size}, "weight_map": index}
    (directory / "model.safetensors.index.json").write_text(json.dumps(metadata))


def _write(held: dict[str, Tensor], index: dict[str, str], directory: Path) -> None:
    file = f"model-{len(set(index.values())) + 1:05d}.safetensors"
    save_file(held, directory / file, metadata={"format": "pt"})
    index.update(dict.fromkeys(held, file))
