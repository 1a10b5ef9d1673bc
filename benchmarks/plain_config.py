"""The shipped configuration without Hydra, for machines that have torch and transformers only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

CONF = Path(__file__).resolve().parents[1] / "conf"


def plain_config(options: Mapping[str, str], overrides: Mapping[str, object]) -> dict[str, object]:
    """What the default recipe composes to, with other options and with single keys replaced.

    Args:
        options: Group -> option, for options that build on no other.
        overrides: Dotted path of an existing key -> value.

    Raises:
        KeyError: There is no such key.
    """
    recipe = yaml.safe_load((CONF / "config.yaml").read_text())
    config = {key: value for key, value in recipe.items() if key != "defaults"}
    for entry in recipe["defaults"]:
        for group, option in entry.items() if isinstance(entry, dict) else ():
            if option is not None:
                config[group] = yaml.safe_load((CONF / group / f"{options.get(group, option)}.yaml").read_text())
    for path, value in overrides.items():
        *groups, key = path.split(".")
        place = config
        for group in groups:
            place = place[group]
        if key not in place:
            raise KeyError(path)
        place[key] = value
    return config


def flat(config: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Every leaf by its dotted path."""
    leaves: dict[str, object] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            leaves |= flat(value, f"{prefix}{key}.")
        else:
            leaves[prefix + key] = value
    return leaves
