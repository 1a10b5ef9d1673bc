"""Hydra's compose API over `conf/`, then people's own values without Hydra's override grammar."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TypeAlias, cast

from trainer.config.build import problems_of
from trainer.config.problems import ConfigError, ConfigProblem, nearest
from trainer.config.schema import ComponentConfig

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

_HYDRA_LOCK = threading.Lock()
_NAMED = "reward.components"


def conf_dir() -> Path:
    """The folder of the Hydra tree: `conf/` beside the package in a checkout, `trainer/_conf` in an installed wheel."""
    package = Path(__file__).resolve().parent.parent
    checkout = package.parent / "conf"
    return checkout if (checkout / "config.yaml").is_file() else package / "_conf"


def config_names() -> list[str]:
    """The names that `compose` takes: the files of `conf/`, then the experiments."""
    return [path.stem for path in sorted(conf_dir().glob("*.yaml"))] + _options("experiment")


def compose(config_name: str = "config", overrides: Mapping[str, object] | None = None) -> dict[str, JsonValue]:
    """Compose a complete configuration.

    Args:
        config_name: One of `config_names()`; an experiment's name means `config` with that experiment.
        overrides: A config group (`algorithm`, `data`, ...) with the name of an option, or a dotted path with any JSON
            value. A mapping as value is merged key by key.

    Returns:
        The nested configuration: resolved, complete and JSON-safe. Values are not checked here; `build` does that.

    Raises:
        ConfigError: An unknown configuration, group option or key, or a value that tries to be code; then also all that
            is wrong with the other values.
    """
    groups, values = _split(overrides or {})
    if config_name in _options("experiment"):
        groups.setdefault("experiment", config_name)
        config_name = "config"
    elif config_name not in config_names():
        message = f"there is no configuration '{config_name}'"
        raise ConfigError([ConfigProblem(path="", message=message, hint=nearest(config_name, config_names()))])
    composed = copy.deepcopy(_hydra(config_name, tuple(sorted(groups.items()))))
    problems = [problem for path, value in values.items() for problem in _apply(composed, path, value)]
    if problems:
        raise ConfigError([*problems, *problems_of(composed)])
    return composed


def flatten(config: Mapping[str, object]) -> dict[str, object]:
    """The leaves of a nested configuration by dotted path."""
    flat: dict[str, object] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            flat.update({f"{key}.{path}": leaf for path, leaf in flatten(value).items()})
        else:
            flat[str(key)] = value
    return flat


def _groups() -> list[str]:
    return sorted(path.name for path in conf_dir().iterdir() if path.is_dir())


def _options(group: str) -> list[str]:
    return sorted(path.stem for path in (conf_dir() / group).glob("*.yaml"))


def _split(overrides: Mapping[str, object]) -> tuple[dict[str, str], dict[str, object]]:
    """Separate the choice of group options from values; a mapping given to a group's name is values."""
    groups: dict[str, str] = {}
    values: dict[str, object] = {}
    problems = []
    known = _groups()
    for key, value in overrides.items():
        if key not in known or isinstance(value, Mapping):
            values[key] = value
        elif isinstance(value, str) and value in _options(key):
            groups[key] = value
        else:
            options = _options(key)
            message = f"got {value!r}, must be one of {', '.join(options)}"
            problems.append(ConfigProblem(path=key, message=message, hint=nearest(str(value), options)))
    if problems:
        raise ConfigError(problems)
    return groups, values


@cache
def _hydra(config_name: str, groups: tuple[tuple[str, str], ...]) -> dict[str, JsonValue]:
    # Imported here: Hydra costs a third of a second, and reading a finished config.yaml does not need it.
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from omegaconf import OmegaConf

    with _HYDRA_LOCK, initialize_config_dir(config_dir=str(conf_dir()), version_base=None):
        # Group and option are names of files that exist (checked above), so the grammar sees nothing else.
        composed = hydra_compose(config_name=config_name, overrides=[f"{key}={option}" for key, option in groups])
        return cast("dict[str, JsonValue]", OmegaConf.to_container(composed, resolve=True, throw_on_missing=True))


def _apply(config: dict[str, JsonValue], path: str, value: object) -> list[ConfigProblem]:
    if path.startswith(f"{_NAMED}."):
        component = path.removeprefix(f"{_NAMED}.").partition(".")[0]
        components = cast("dict[str, dict[str, dict[str, JsonValue]]]", config)["reward"]["components"]
        if value is None and path == f"{_NAMED}.{component}":
            components.pop(component, None)
            return []
        # A name of a person's choice appears with its first key; the others are as if left out.
        components.setdefault(component, {field.name: None for field in fields(ComponentConfig)} | {"weight": 1.0})
    if isinstance(value, Mapping):
        pairs = {f"{path}.{key}": item for key, item in value.items()}
        return [problem for deeper, item in pairs.items() for problem in _apply(config, deeper, item)]
    refused = _refused(path, value)
    if refused is not None:
        return [refused]
    *parents, leaf = path.split(".")
    node: JsonValue = config
    for part in parents:
        node = node.get(part) if isinstance(node, dict) else None
    if not isinstance(node, dict) or leaf not in node:
        known = [*flatten(config), *_groups()]
        return [ConfigProblem(path=path, message="unknown key", hint=nearest(path, known))]
    if isinstance(node[leaf], dict):
        message = f"is a group of keys, got {value!r}"
        keys = ", ".join(f"{path}.{key}" for key in cast("dict[str, JsonValue]", node[leaf]))
        return [ConfigProblem(path=path, message=message, hint=f"set one of {keys}")]
    node[leaf] = cast(JsonValue, value)
    return []


def _refused(path: str, value: object) -> ConfigProblem | None:
    if "_target_" in path.split("."):
        return ConfigProblem(path=path, message="'_target_' is not allowed: a configuration holds values, not code")
    if isinstance(value, str) and "${" in value:
        message = f"got {value!r}: interpolation ('${{') is not allowed in a value"
        return ConfigProblem(path=path, message=message, hint="write the value itself")
    if isinstance(value, list | tuple):
        found = (_refused(path, item) for item in value)
        return next((problem for problem in found if problem is not None), None)
    if value is None or isinstance(value, bool | int | float | str):
        return None
    return ConfigProblem(path=path, message=f"got a {type(value).__name__}, must be a JSON value")
