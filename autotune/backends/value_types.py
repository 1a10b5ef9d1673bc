"""Whether a value is of the type that the configuration has in its place."""

from __future__ import annotations

from autotune.errors import Problem
from autotune.spec.values import FlatConfig, JsonValue


def typed(name: str, default: JsonValue, config: FlatConfig) -> tuple[Problem, ...]:
    """A problem if the value is missing or of another type than the default; a null default says nothing."""
    if name not in config:
        return (Problem(message=f"the parameter {name!r} is missing.", hint="Give it a value.", path=name),)
    value = config[name]
    if default is None or value is None or _kind(value) == _kind(default):
        return ()
    if isinstance(default, float) and _kind(value) == "a whole number":
        return ()
    message = f"must be {_kind(default)} as its default {default!r}, got {value!r}."
    return (Problem(message=message, hint="Change the value or the declared default.", path=name),)


def _kind(value: JsonValue) -> str:
    kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    return kinds.get(type(value), "a list or a mapping")
