"""Three ways to read metrics from the lines of a file or of a program's output."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from autotune.backends.adapter.numbers import number, whole

MAX_SEARCHED = 4096
"""Characters of a line that patterns are searched in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What one line holds: values by metric name, and the step if the line says it."""

    step: int | None
    values: Mapping[str, float]


class LineReader(Protocol):
    """Reads one line; ``None`` where it holds nothing of interest."""

    numbered: bool | None
    """Whether steps are given by the program; ``None`` = the lines show it."""

    def read(self, line: str) -> Found | None:
        """What the line holds."""
        ...


class JsonLines:
    """One JSON object per line.

    Args:
        step: The field that holds the step.
        names: Metric -> its field.
    """

    numbered: bool | None = None

    def __init__(self, step: str, names: Mapping[str, str]) -> None:
        self._step = step
        self._names = names

    def read(self, line: str) -> Found | None:
        """The object's fields; a field that is null or no number is left out."""
        if not line.lstrip().startswith("{"):
            return None
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            return None
        return _found(data, self._step, self._names) if isinstance(data, dict) else None


class Patterns:
    """Regular expressions with named groups, searched in each line.

    Args:
        step: The group that holds the step.
        names: Metric -> its group.
        patterns: All are tried on each line.
    """

    def __init__(self, step: str, names: Mapping[str, str], patterns: Sequence[str]) -> None:
        self._step = step
        self._names = names
        self._patterns = [re.compile(pattern) for pattern in patterns]
        self.numbered: bool | None = any(step in pattern.groupindex for pattern in self._patterns)

    def read(self, line: str) -> Found | None:
        """What the groups of all patterns that occur in the line hold."""
        groups: dict[str, object] = {}
        for pattern in self._patterns:
            match = pattern.search(line, 0, MAX_SEARCHED)
            if match is not None:
                groups.update({name: text for name, text in match.groupdict().items() if text is not None})
        return _found(groups, self._step, self._names) if groups else None


class CsvRows:
    """A table with a header; a line that repeats the header begins the table anew.

    Args:
        step: The column that holds the step.
        names: Metric -> its column.
    """

    numbered: bool | None = None

    def __init__(self, step: str, names: Mapping[str, str]) -> None:
        self._step = step
        self._names = names
        self._header: list[str] = []

    def read(self, line: str) -> Found | None:
        """The row's columns; an empty cell is left out."""
        cells = [cell.strip() for cell in next(csv.reader([line]), [])]
        if not self._header or set(self._names.values()) <= set(cells):
            self._header = cells
            return None
        row = {name: cell for name, cell in zip(self._header, cells, strict=False) if cell}
        return _found(row, self._step, self._names)


def reader_of(read: str, step: str, names: Mapping[str, str], patterns: Sequence[str]) -> LineReader:
    """The reader that the space file names."""
    if read == "regex":
        return Patterns(step, names, patterns)
    return CsvRows(step, names) if read == "csv" else JsonLines(step, names)


def _found(data: Mapping[str, object], step: str, names: Mapping[str, str]) -> Found | None:
    read = {metric: number(data.get(source)) for metric, source in names.items()}
    values = {metric: value for metric, value in read.items() if value is not None}
    at = whole(data.get(step))
    return Found(step=at, values=values) if values or at is not None else None
