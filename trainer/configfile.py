"""Read and write configuration files. Imports no torch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from trainer.config import ConfigError, ConfigProblem


class _Loader(yaml.SafeLoader):
    """YAML 1.1 reads `1e-5` as a string; people and JSON writers mean a number."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+"), list("-+0123456789")
)


def parse_value(text: str) -> object:
    """A value as written on the command line: YAML, so `0.1`, `true`, `null`, `[1, 2]` and plain words all work.

    Raises:
        yaml.YAMLError: The text is no YAML.
    """
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def read_config(path: Path) -> dict[str, object]:
    """Read a `config.yaml` (YAML or JSON).

    Raises:
        ConfigError: The file is missing, unreadable, or holds no mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"cannot read {path.resolve()}: {error}"
        hint = "a trial's directory must hold its config.yaml"
        raise ConfigError([ConfigProblem(path="", message=message, hint=hint)]) from error
    try:
        content = parse_value(text)
    except yaml.YAMLError as error:
        raise ConfigError([ConfigProblem(path="", message=f"{path} is no valid YAML: {error}")]) from error
    if not isinstance(content, dict):
        message = f"{path} holds {type(content).__name__}, must be a mapping of keys"
        raise ConfigError([ConfigProblem(path="", message=message)])
    return content


def dump_config(config: Mapping[str, object]) -> str:
    """A configuration as text that `read_config` reads back equal."""
    return json.dumps(config, indent=2) + "\n"
