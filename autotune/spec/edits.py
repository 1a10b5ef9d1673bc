"""Another search for a job that has begun: its document with parameters changed, added or taken away."""

from __future__ import annotations

import json
from collections.abc import Mapping

from autotune.errors import InvalidSpaceError, Problem
from autotune.spec.aliases import resolve
from autotune.spec.document import read_document
from autotune.spec.domains import nearest
from autotune.spec.nearest import did_you_mean
from autotune.spec.parameters import read_search
from autotune.spec.reader import Report, Section
from autotune.spec.starts import TRIED
from autotune.spec.types import Parameter
from autotune.spec.values import JsonValue


def edited(
    document: Mapping[str, JsonValue], changes: Mapping[str, JsonValue], *, tried: int, stage: str | None = None
) -> dict[str, JsonValue]:
    """The document of a job with another search.

    A parameter that is named with a domain takes the place of the one of that name, or is added; one that is named with
    ``None`` is searched no longer and keeps the configuration's own value. What ``start_from`` gives and was not tried
    yet is moved into the new ranges; what was tried is marked and keeps its place.

    Args:
        document: The document as it was resolved.
        changes: Full path or short name -> a domain as in a space file, or ``None``.
        tried: How many of ``start_from`` have become trials.
        stage: Name of the stage that is meant; ``None`` for a job without stages.

    Raises:
        InvalidSpaceError: If a domain cannot be read, a parameter to be taken away is not searched, nothing would be
            searched any more, or the stage has no search of its own.
    """
    whole: dict[str, JsonValue] = json.loads(json.dumps(dict(document)))
    own = _part(whole, stage)
    search = own.get("search")
    if not isinstance(search, dict):
        raise InvalidSpaceError(
            f"stage {stage!r} searches the parameters of the stage before.", hint="Change that stage's search."
        )
    problems: list[Problem] = []
    for name, written in changes.items():
        path = name if name in search else resolve(name)
        if written is None and path not in search:
            hint = did_you_mean(path, search)
            problems.append(
                Problem(message=f"{name!r} is not searched, so it cannot be taken away.", hint=hint, path=name)
            )
        elif written is None:
            del search[path]
        else:
            search[path] = written
    if not search and not problems:
        problems.append(Problem(message="nothing would be searched any more.", path="search"))
    parameters = {} if problems else _read(search, problems)
    if problems:
        raise InvalidSpaceError(
            f"the space cannot be changed so: {'; '.join(str(problem) for problem in problems)}",
            hint=problems[0].hint,
            problems=problems,
        )
    starts = own.get("start_from")
    if isinstance(starts, list):
        own["start_from"] = [
            _marked(item) if place < tried else _moved(item, parameters) for place, item in enumerate(starts)
        ]
    return whole


def _part(document: dict[str, JsonValue], stage: str | None) -> dict[str, JsonValue]:
    stages = document.get("stages")
    if stage is None or not isinstance(stages, list):
        return document
    return next(one for one in stages if isinstance(one, dict) and one.get("name") == stage)


def _read(search: Mapping[str, JsonValue], problems: list[Problem]) -> Mapping[str, Parameter]:
    report = Report()
    table, unreadable = read_document(json.dumps(search), "")
    report.problems += unreadable
    found = {} if table is None else read_search(Section(table, "search", report, table.entries))
    problems += [Problem(message=one.message, hint=one.hint, path=one.path) for one in report.problems]
    return found


def _marked(item: JsonValue) -> JsonValue:
    return item if isinstance(item, dict) and list(item) == [TRIED] else {TRIED: item}


def _moved(item: JsonValue, search: Mapping[str, Parameter]) -> JsonValue:
    """A start with its values inside the ranges; the default where nothing is left of it."""
    if not isinstance(item, dict):
        return item
    values = {path: nearest(search[path].domain, value) for path, value in item.items() if path in search}
    kept: dict[str, JsonValue] = {path: value for path, value in values.items() if value is not None}
    return kept or "default"
