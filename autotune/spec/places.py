"""Finds the place in the space file that a problem found later is about."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from autotune.errors import Problem
from autotune.spec.nodes import Place
from autotune.spec.types import Space


def place_of(space: Space, path: str, *, value: bool = False) -> Place:
    """Where ``path`` stands in the file, or the closest thing around it that does.

    Args:
        space: A loaded space.
        path: Dotted path inside the document.
        value: Look for the value behind the key instead of for the key.
    """
    if value and f"{path}:" in space.marks:
        return space.marks[f"{path}:"]
    known = path
    while known:
        if known in space.marks:
            return space.marks[known]
        known = re.sub(r"(^|\.)[^.\[]*$|\[\d+\]$", "", known)
    return space.marks.get("", ("", 0, 0))


def placed(space: Space, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems that know their path only, with file, line and column added."""
    found = []
    for problem in problems:
        file, line, column = place_of(space, problem.path)
        found.append(problem if problem.line else dataclasses.replace(problem, file=file, line=line, column=column))
    return tuple(found)
