"""verl's configuration tree, composed from its own YAML. Hydra is imported only here, and only when it is needed."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from autotune.backends.config_file import flat
from autotune.spec.values import FlatConfig, JsonValue

if TYPE_CHECKING:
    from omegaconf import DictConfig

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+-]*")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "nan", "inf"})


def compose_tree(configs: Path, name: str, overrides: Sequence[str]) -> FlatConfig:
    """The whole tree with overrides, flat and with interpolations resolved; ``???`` stays where a value is missing.

    Raises:
        ValueError: If Hydra does not accept the overrides.
    """
    return _flat(_compose(configs, name, tuple(overrides)))


@functools.lru_cache(maxsize=8)
def _compose(configs: Path, name: str, overrides: tuple[str, ...]) -> DictConfig:
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from trainer.config.compose import _HYDRA_LOCK

    try:
        with _HYDRA_LOCK, initialize_config_dir(config_dir=str(configs), version_base=None):
            return compose(name, overrides=list(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise ValueError(" ".join(str(error).split())) from error


def with_values(configs: Path, name: str, overrides: Sequence[str], values: Mapping[str, JsonValue]) -> FlatConfig:
    """The same tree with values put in, and everything that follows them; quick once the tree is composed.

    Keys that do not exist are created.
    """
    from omegaconf import OmegaConf, open_dict

    tree = _compose(configs, name, tuple(overrides)).copy()
    with open_dict(tree):
        for key, value in values.items():
            OmegaConf.update(tree, key, value, force_add=True)
    return _flat(tree)


def _flat(tree: DictConfig) -> FlatConfig:
    from omegaconf import OmegaConf

    return flat(cast("dict[str, JsonValue]", OmegaConf.to_container(tree, resolve=True)))


def override(key: str, value: JsonValue) -> str:
    """One override in Hydra's grammar."""
    return f"{key}={_written(value)}"


def _written(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
                return value
            escaped = re.sub(r'(\\*)"', r'\1\1\\"', value)
            trailing = len(escaped) - len(escaped.rstrip("\\"))
            return f'"{escaped}{chr(92) * trailing}"'
        case list():
            return f"[{','.join(_written(item) for item in value)}]"
        case dict():
            return "{" + ",".join(f"{name}:{_written(item)}" for name, item in value.items()) + "}"
        case _:
            return repr(value)
