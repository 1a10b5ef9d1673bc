"""Samplers and pruners of other distributions, found by their entry points.

A distribution that declares an entry point in one of these groups adds a name to space files::

    [project.entry-points."autotune.pruners"]
    my-rule = "my_package:MyRule"

Names of this project's own go first. A plugin is imported when a space file names it, not before, and what is wrong
with it is said with its name and the distribution that brought it.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from autotune.errors import InvalidSpaceError

SAMPLERS = "autotune.samplers"
PRUNERS = "autotune.pruners"


def names(group: str) -> tuple[str, ...]:
    """The names that installed distributions declare in a group, in alphabetical order; nothing is imported."""
    return tuple(sorted({point.name for point in _declared(group, tuple(sys.path))}))


def loaded(group: str, name: str) -> object:
    """What an entry point stands for.

    Raises:
        InvalidSpaceError: If no distribution declares it, two do, or it cannot be imported.
    """
    point = _point(group, name)
    try:
        return point.load()
    except Exception as error:  # a plugin may fail in any way while it is imported
        raise broken(group, name, f"importing {point.value} raised {type(error).__name__}: {error}") from error


def called(group: str, name: str, *args: object, **options: object) -> object:
    """What an entry point answers when it is called.

    Raises:
        InvalidSpaceError: If it cannot be loaded or called, or raises.
    """
    build = loaded(group, name)
    if not callable(build):
        raise broken(group, name, f"{_point(group, name).value} is {type(build).__name__}, which cannot be called")
    try:
        answer: object = build(*args, **options)
    except Exception as error:  # nor can anything be said about what it raises when it is called
        raise broken(group, name, f"it raised {type(error).__name__}: {error}") from error
    return answer


def broken(group: str, name: str, why: str) -> InvalidSpaceError:
    """The error that names a plugin and where it comes from."""
    point = next((one for one in _declared(group, tuple(sys.path)) if one.name == name), None)
    source = (
        "an unknown distribution" if point is None or point.dist is None else f"{point.dist.name} {point.dist.version}"
    )
    return InvalidSpaceError(
        f"the plugin {name!r} of the group {group} (from {source}) cannot be used: {why}.",
        hint=f"Repair or uninstall {source}, or write another name.",
    )


@lru_cache(maxsize=8)
def _declared(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entry points of a group; looking through all distributions on the path takes tens of milliseconds."""
    del path
    return tuple(entry_points(group=group))


def _point(group: str, name: str) -> EntryPoint:
    found = [point for point in _declared(group, tuple(sys.path)) if point.name == name]
    if not found:
        raise InvalidSpaceError(f"no installed distribution declares {name!r} in the group {group}.")
    if len(found) > 1:
        sources = " and ".join(sorted(point.dist.name for point in found if point.dist is not None))
        raise broken(group, name, f"{sources} declare the same name")
    return found[0]
