"""The ``config.yaml`` of a trial directory, and the two shapes of a configuration: flat and as a tree."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from autotune.spec.values import FlatConfig, JsonValue

CONFIG_FILE = "config.yaml"
OWN = "backend."
"""Under this prefix a backend keeps what it needs itself."""


def write_config(config: FlatConfig, directory: Path) -> None:
    """Writes ``config.yaml`` into the trial directory, atomically.

    Raises:
        ValueError: If a value is not finite.
        OSError: If the directory cannot be written.
    """
    # JSON is YAML in which every text is quoted, so that nothing is read back as something else.
    text = json.dumps(nested(config), indent=2, allow_nan=False) + "\n"
    directory.mkdir(parents=True, exist_ok=True)
    temporary = directory / f".{CONFIG_FILE}.{os.getpid()}"
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(directory / CONFIG_FILE)
    finally:
        temporary.unlink(missing_ok=True)


def differences(config: FlatConfig, base: FlatConfig) -> dict[str, JsonValue]:
    """What a configuration has otherwise than the one it was made from; the backend's own keys are left out."""
    return {key: value for key, value in config.items() if not key.startswith(OWN) and value != base.get(key)}


def nested(config: FlatConfig) -> dict[str, JsonValue]:
    """A flat configuration as a tree.

    Raises:
        ValueError: If a path is a value and a group of keys at once.
    """
    tree: dict[str, Any] = {}
    for path, value in config.items():
        *groups, leaf = path.split(".")
        node = tree
        for group in groups:
            node = node.setdefault(group, {})
            if not isinstance(node, dict):
                raise ValueError(f"{path!r} goes through {group!r}, which is a value.")
        node[leaf] = value
    return tree


def flat(tree: dict[str, JsonValue], prefix: str = "") -> dict[str, JsonValue]:
    """A tree of a configuration by dotted path; an empty group stays a value."""
    found: dict[str, JsonValue] = {}
    for key, value in tree.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict) and value:
            found.update(flat(value, path))
        else:
            found[path] = value
    return found
