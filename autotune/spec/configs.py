"""From a space and the values of its parameters to the complete configuration of a trial, and back."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.errors import InvalidSpaceError
from autotune.spec.domains import contains, describe_domain
from autotune.spec.types import Parameter, Space, Start
from autotune.spec.values import FlatConfig, JsonValue

__all__ = ["active", "complete", "describe_domain", "ordered", "start_params"]


def ordered(search: Mapping[str, Parameter]) -> tuple[Parameter, ...]:
    """The parameters so that each one comes after those its ``when`` reads, else in the order of the file.

    Raises:
        InvalidSpaceError: If conditions refer to each other in a circle; a loaded space never does.
    """
    done: dict[str, Parameter] = {}
    waiting = dict(search)
    while waiting:
        ready = [p for p in waiting.values() if p.when is None or not p.when.names & waiting.keys()]
        if not ready:
            raise InvalidSpaceError(
                f"the `when` conditions of {', '.join(waiting)} refer to each other in a circle.",
                hint="Remove one of the conditions.",
            )
        for parameter in ready:
            done[parameter.path] = waiting.pop(parameter.path)
    return tuple(done.values())


def complete(space: Space, base: FlatConfig, params: FlatConfig) -> FlatConfig:
    """The configuration that a trial runs: ``base`` with the values of the active parameters in place.

    A parameter whose ``when`` does not hold keeps the configuration's own value, and that is also what the conditions
    of other parameters see.

    Args:
        space: A loaded space.
        base: The complete configuration with the space's fixed overrides applied, flat.
        params: Full path -> value; parameters that are not given keep the configuration's own value.
    """
    config = dict(base)
    for parameter in ordered(space.search):
        if parameter.path in params and (parameter.when is None or parameter.when.holds(config)):
            config[parameter.path] = params[parameter.path]
    return config


def active(space: Space, values: FlatConfig) -> tuple[str, ...]:
    """The paths of the parameters that exist in a configuration, in the order of the file.

    Args:
        space: A loaded space.
        values: A complete configuration, as ``complete`` returns it.
    """
    return tuple(path for path, p in space.search.items() if p.when is None or p.when.holds(values))


def start_params(space: Space, base: FlatConfig, start: Start) -> FlatConfig:
    """The values of all active parameters of a start.

    A parameter that the start does not give takes the configuration's own value, or its ``prior`` where the own value
    does not lie in the domain.
    """
    config = dict(base)
    params: dict[str, JsonValue] = {}
    for parameter in ordered(space.search):
        if parameter.when is not None and not parameter.when.holds(config):
            continue
        own = base.get(parameter.path)
        default = own if parameter.prior is None or contains(parameter.domain, own) else parameter.prior
        params[parameter.path] = start.values.get(parameter.path, default)
        config[parameter.path] = params[parameter.path]
    return params
