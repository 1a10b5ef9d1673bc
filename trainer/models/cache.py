"""A cache of built weights, shared by all runs of a person: one builds, the others wait and load."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from trainer.console import say


def cache_dir() -> Path:
    """`$AUTOTUNE_HOME/cache`, by default `~/.autotune/cache`."""
    return Path(os.environ.get("AUTOTUNE_HOME") or Path.home() / ".autotune") / "cache"


def cached_weights(ingredients: Mapping[str, object], make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """The weights that `make` builds, from the cache when they were built before.

    A cache that cannot be written is no reason to fail: the weights are then built for this run alone.

    Args:
        ingredients: Everything that determines the weights, JSON-safe; its hash is the key.
        make: Builds the weights.
    """
    key = hashlib.sha256(json.dumps(ingredients, sort_keys=True).encode()).hexdigest()[:32]
    target = cache_dir() / "models" / f"{key}.safetensors"
    if target.is_file():
        return load_file(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target.with_suffix(".lock")):
            if target.is_file():
                return load_file(target)
            weights = make()
            _publish(weights, target)
            return weights
    except OSError as error:
        say(f"warning: cannot use the model cache {target.parent} ({error}); building for this run")
        return make()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file, across processes, for the time of a `with` block."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _publish(weights: dict[str, Tensor], target: Path) -> None:
    descriptor, name = tempfile.mkstemp(dir=target.parent, suffix=".tmp")
    os.close(descriptor)
    temporary = Path(name)
    try:
        save_file({key: tensor.contiguous() for key, tensor in weights.items()}, temporary)
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
