"""What a pruner of another distribution takes: read off its fields.

A plugin is a dataclass with a ``name`` and a ``judge``, like this project's own pruners. Its fields are its options:
whole numbers, numbers, and metrics (a text whose name is ``metric`` or ends in ``_metric``; without a default it is the
objective's).
"""

from __future__ import annotations

import dataclasses
import typing

from autotune.spec import plugins
from autotune.spec.bounds import ANY
from autotune.spec.pruning import PRUNERS, Option, OptionKind, PrunerKind

_KINDS: dict[object, OptionKind] = {int: OptionKind.WHOLE, float: OptionKind.NUMBER}


def pruner_names() -> tuple[str, ...]:
    """The pruners that a space file may name."""
    return (*PRUNERS, *(name for name in plugins.names(plugins.PRUNERS) if name not in PRUNERS))


def pruner_kind(name: str) -> PrunerKind:
    """The options of a pruner, this project's own or a plugin's.

    Raises:
        InvalidSpaceError: If a plugin cannot be imported or is not made like a pruner.
    """
    if name in PRUNERS:
        return PRUNERS[name]
    built = plugins.loaded(plugins.PRUNERS, name)
    if not (isinstance(built, type) and dataclasses.is_dataclass(built) and callable(getattr(built, "judge", None))):
        raise plugins.broken(plugins.PRUNERS, name, "a pruner is a dataclass with a method `judge`")
    if getattr(built, "name", None) != name:
        raise plugins.broken(plugins.PRUNERS, name, f"its `name` is {getattr(built, 'name', None)!r}, not {name!r}")
    types = typing.get_type_hints(built)
    described = (built.__doc__ or name).strip().splitlines()[0]
    options = {field.name: _option(name, field, types[field.name]) for field in dataclasses.fields(built)}
    return PrunerKind(description=described, options=options, example=f"{name}: {{...}}")


def _option(name: str, field: dataclasses.Field[object], kind: object) -> Option:
    required = field.default is dataclasses.MISSING
    default = None if required else field.default
    is_metric = field.name == "metric" or field.name.endswith("_metric")
    if is_metric and (default is None or isinstance(default, str)):
        return Option(kind=OptionKind.METRIC, description="A metric.", default=default)
    if kind not in _KINDS or not (default is None or isinstance(default, int | float)):
        why = f"its option {field.name!r} is neither a whole number, nor a number, nor a metric"
        raise plugins.broken(plugins.PRUNERS, name, why)
    return Option(kind=_KINDS[kind], description=f"{field.name}.", default=default, required=required, bounds=ANY)
