"""From a plain mapping to the typed configuration, with every problem reported at once."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from functools import cache

from trainer.config.problems import ConfigError, ConfigProblem, nearest
from trainer.config.rules import cross_field_problems
from trainer.config.schema import Config

_WORDS = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}
_MISSING = object()


def build(config: Mapping[str, object]) -> Config:
    """Turn a complete nested mapping into a `Config`.

    Args:
        config: What `compose` returns or a trial's `config.yaml` holds: every key present, none unknown.

    Raises:
        ConfigError: With all problems: unknown and missing keys, wrong types, values out of range, rules over several
            keys (the rules are checked once every single value is right).
    """
    problems: list[ConfigProblem] = []
    built = _build_group(Config, config, "", problems)
    if problems or not isinstance(built, Config):
        raise ConfigError(problems)
    problems = cross_field_problems(built)
    if problems:
        raise ConfigError(problems)
    return built


def problems_of(config: Mapping[str, object]) -> tuple[ConfigProblem, ...]:
    """What `build` would refuse; empty when nothing is wrong."""
    try:
        build(config)
    except ConfigError as error:
        return error.problems
    return ()


def known_keys() -> tuple[str, ...]:
    """The dotted path of every leaf key of the configuration tree."""
    return tuple(_leaves(Config, ""))


@cache
def _hints(group: type) -> dict[str, object]:
    return typing.get_type_hints(group)


def _leaves(group: type, prefix: str) -> list[str]:
    paths: list[str] = []
    for name, kind in _hints(group).items():
        if isinstance(kind, type) and is_dataclass(kind):
            paths += _leaves(kind, f"{prefix}{name}.")
        else:
            paths.append(prefix + name)
    return paths


def _build_group(group: type, value: object, prefix: str, problems: list[ConfigProblem]) -> object:
    if not isinstance(value, Mapping):
        problems.append(
            ConfigProblem(
                path=prefix.rstrip("."),
                message=f"got {value!r}, must be a group of keys",
                hint=f"keys: {', '.join(_hints(group))}",
            )
        )
        return _MISSING
    hints = _hints(group)
    for name in value:
        if name not in hints:
            hint = nearest(prefix + str(name), [*known_keys(), *(prefix + key for key in hints)])
            problems.append(ConfigProblem(path=f"{prefix}{name}", message="unknown key", hint=hint))
    arguments: dict[str, object] = {}
    for item in fields(group):
        path, kind = prefix + item.name, hints[item.name]
        if item.name not in value:
            problems.append(ConfigProblem(path=path, message="key is missing", hint="compose() writes every key"))
        elif isinstance(kind, type) and is_dataclass(kind):
            arguments[item.name] = _build_group(kind, value[item.name], f"{path}.", problems)
        elif typing.get_origin(kind) is Mapping:
            arguments[item.name] = _build_named(kind, value[item.name], path, problems)
        else:
            arguments[item.name] = _check(item, kind, value[item.name], path, problems)
    if len(arguments) < len(fields(group)) or _MISSING in arguments.values():
        return _MISSING
    return group(**arguments)


def _build_named(kind: object, value: object, path: str, problems: list[ConfigProblem]) -> object:
    """Groups under names of a person's choice, `Mapping[str, group]`."""
    group = typing.cast(type, typing.get_args(kind)[1])
    if not isinstance(value, Mapping):
        hint = f"for example {{some_name: {{{fields(group)[0].name}: 1.0}}}}; {{}} for none"
        problems.append(ConfigProblem(path=path, message=f"got {value!r}, must be names with a group each", hint=hint))
        return _MISSING
    built = {str(name): _build_group(group, inner, f"{path}.{name}.", problems) for name, inner in value.items()}
    return _MISSING if _MISSING in built.values() else built


def _check(item: Field[object], kind: object, value: object, path: str, problems: list[ConfigProblem]) -> object:
    options = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if value is None and type(None) in options:
        return None
    wanted = next(option for option in options if option is not type(None))
    typed = _typed(wanted, value)
    if typed is _MISSING:
        also = " or null" if type(None) in options else ""
        problems.append(
            ConfigProblem(path=path, message=f"got {value!r}, must be {_WORDS[typing.cast(type, wanted)]}{also}")
        )
        return _MISSING
    problem = _out_of_range(item.metadata, typed, path)
    if problem is not None:
        problems.append(problem)
        return _MISSING
    return typed


def _typed(wanted: object, value: object) -> object:
    if wanted is bool or isinstance(value, bool):
        return value if wanted is bool and isinstance(value, bool) else _MISSING
    if wanted is int:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return int(typing.cast(float, value)) if whole else _MISSING
    if wanted is float:
        finite = isinstance(value, int | float) and math.isfinite(value)
        return float(typing.cast(float, value)) if finite else _MISSING
    return value if isinstance(value, str) else _MISSING


def _out_of_range(limits: Mapping[str, object], value: object, path: str) -> ConfigProblem | None:
    choices = typing.cast("tuple[str, ...] | None", limits.get("choices"))
    if choices is not None and value not in choices:
        hint = nearest(str(value), choices)
        return ConfigProblem(path=path, message=f"got {value!r}, must be one of {', '.join(choices)}", hint=hint)
    low, above, high = (typing.cast("float | None", limits.get(name)) for name in ("low", "above", "high"))
    if isinstance(value, int | float):
        wrong = (
            (low is not None and value < low)
            or (above is not None and value <= above)
            or (high is not None and value > high)
        )
        if wrong:
            parts = [f">= {low:g}" if low is not None else "", f"> {above:g}" if above is not None else ""]
            parts.append(f"<= {high:g}" if high is not None else "")
            allowed = " and ".join(part for part in parts if part)
            return ConfigProblem(path=path, message=f"got {value!r}, must be {allowed}")
    return None
