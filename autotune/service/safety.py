"""What a space may make this machine run and read.

Whoever owns the machine may run and read anything. Holders of tokens may run the built-in trainer, and more only where
the operator of the service has said so (``AUTOTUNE_ALLOW``); the files that it reads lie where the operator has said
(``AUTOTUNE_ALLOW_PATHS``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from autotune.access import Caller
from autotune.errors import NotAllowedError, Problem
from autotune.service.spaces import ResolvedSpace
from autotune.settings import ALLOWABLE
from autotune.spec.types import Choice, Space
from autotune.spec.values import JsonValue

_OPENED = ("path", "_file", "_dir")
"""How keys end whose value is opened."""


def refuse_code(resolved: ResolvedSpace, caller: Caller, allowed: frozenset[str]) -> None:
    """Refuses a space that would run somebody's own code.

    Raises:
        NotAllowedError: With one problem for each thing that is not allowed.
    """
    if caller.is_local:
        return
    problems = [
        Problem(path=path, message=f"would run {ALLOWABLE[word]}, which this service does not.", hint=f"Word: {word}")
        for word, path in sorted(set(_wanted(resolved)))
        if word not in allowed
    ]
    if problems:
        words = ",".join(sorted({problem.hint.removeprefix("Word: ") for problem in problems} | allowed))
        raise NotAllowedError(
            "the space would run code of its own: " + "; ".join(str(problem) for problem in problems),
            hint=f"The operator of the service can allow it: AUTOTUNE_ALLOW={words} autotune serve",
            problems=problems,
        )


def refuse_paths(resolved: ResolvedSpace, caller: Caller, roots: Sequence[Path]) -> None:
    """Refuses a space that names a file or a directory outside of what the operator has given free.

    A name on the Hub is no path, and a relative one cannot leave the trial's own directory.

    Raises:
        NotAllowedError: With one problem for each path.
    """
    if caller.is_local:
        return
    places = ", ".join(map(str, roots)) or "none"
    problems = [
        Problem(path=path, message=f"got {value!r}; spaces of token holders may name files in: {places}.")
        for path, value in sorted(set(_paths(resolved)))
        if not _is_inside(value, roots)
    ]
    if problems:
        raise NotAllowedError(
            "the space reads files of the service's machine: " + "; ".join(str(problem) for problem in problems),
            hint="Use a name on the Hub, or ask the operator of the service: AUTOTUNE_ALLOW_PATHS=/data autotune serve",
            problems=problems,
        )


def _is_inside(value: str, roots: Sequence[Path]) -> bool:
    path = Path(value)
    if not path.is_absolute() and not value.startswith("~") and ".." not in path.parts:
        return True
    # A link that leads out of a root is outside of it; a relative path is as seen from nowhere.
    there = Path(os.path.realpath(path.expanduser()))
    return path.is_absolute() and any(there.is_relative_to(root) for root in roots)


def _paths(resolved: ResolvedSpace) -> Iterator[tuple[str, str]]:
    """Place and value of everything that the built-in trainer opens, in all stages."""
    for part in resolved.parts:
        if part.space.trainer.backend != "native":
            continue  # a program of one's own reads what it likes; that one may run it is what is asked
        values = [*part.base.items(), *part.space.trainer.overrides.items()]
        for path, parameter in part.space.search.items():
            values += [(path, option) for option in getattr(parameter.domain, "options", ())]
        for path, value in values:
            if path.endswith(_OPENED) and isinstance(value, str):
                yield path, value


def _wanted(resolved: ResolvedSpace) -> Iterator[tuple[str, str]]:
    """Word and place of everything that is code, in all stages."""
    for path, value in resolved.base.items():
        yield from _of(path, value)
    for space in (resolved.space, *(stage.space for stage in resolved.space.stages)):
        yield from _of_space(space)


def _of_space(space: Space) -> Iterator[tuple[str, str]]:
    if space.trainer.backend != "native":
        yield (space.trainer.backend, "trainer.backend")
    for path, value in space.trainer.overrides.items():
        yield from _of(path, value)
    for path, parameter in space.search.items():
        for option in parameter.domain.options if isinstance(parameter.domain, Choice) else ():
            yield from _of(path, option)


def _of(path: str, value: JsonValue) -> Iterator[tuple[str, str]]:
    name = path.rpartition(".")[2]
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _of(f"{path}.{key}", inner)
    elif name == "trust_remote_code" and value not in (None, False):
        yield ("remote_code", path)
    elif path.startswith("reward.") and name.endswith("function") and value is not None:
        yield ("reward_functions", path)
