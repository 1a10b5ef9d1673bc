"""Reads values out of a document tree and collects every problem instead of stopping at the first."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping

from autotune.errors import InvalidSpaceError, Problem
from autotune.spec.aliases import ALIASES
from autotune.spec.bounds import ANY, Bounds
from autotune.spec.document import MAX_INT
from autotune.spec.nearest import did_you_mean
from autotune.spec.nodes import Entry, Items, Node, Place, Scalar, Table, is_null, join, plain
from autotune.spec.values import JsonValue

MAX_PROBLEMS = 50
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?")


class Report:
    """Collects problems.

    Attributes:
        partial: What the file extends could not be read, so nothing is known to be missing.
        aliases: Short name -> full path of the parameters, for the trainer that the file is about.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.partial = False
        self.aliases: Mapping[str, str] = ALIASES

    def add(self, place: Place, path: str, message: str, hint: str = "") -> None:
        """Notes one problem."""
        file, line, column = place
        self.problems.append(Problem(message=message, hint=hint, path=path, file=file, line=line, column=column))

    def close(self, file: str) -> None:
        """Ends the reading of ``file``.

        Raises:
            InvalidSpaceError: If there was any problem; with all of them, in the order of the file.
        """
        if not self.problems:
            return
        ordered = sorted(self.problems, key=lambda problem: (problem.file != file, problem.line, problem.column))
        count = "1 problem" if len(ordered) == 1 else f"{len(ordered)} problems"
        more = f", the first {MAX_PROBLEMS} are shown" if len(ordered) > MAX_PROBLEMS else ""
        raise InvalidSpaceError(
            f"{file} cannot be used: {count}{more}.",
            hint="Correct the file and try again with: autotune plan FILE",
            problems=ordered[:MAX_PROBLEMS],
        )


class Section:
    """One mapping of the document; complains about keys it does not know as soon as it is opened."""

    def __init__(self, table: Table, path: str, report: Report, known: Collection[str]) -> None:
        self.table = table
        self.path = path
        self.report = report
        for key, entry in table.entries.items():
            if key not in known:
                report.add(entry.place, join(path, key), f"unknown key {key!r}.", did_you_mean(key, known))

    def entry(self, key: str) -> Entry | None:
        """The entry of a key; nothing where it is missing or null."""
        entry = self.table.entries.get(key)
        return None if entry is None or is_null(entry.node) else entry

    def complain(self, key: str, message: str, hint: str = "") -> None:
        """Notes a problem with the value of ``key``, or with the section itself if the key is missing."""
        entry = self.table.entries.get(key)
        place = entry.node.place if entry is not None else self.table.place
        self.report.add(place, join(self.path, key), message, hint)

    def missing(self, key: str, hint: str) -> None:
        """Notes that a key that is needed is not there."""
        if not self.report.partial:
            self.complain(key, f"the key {key!r} is missing.", hint)

    def text(self, key: str, default: str = "") -> str:
        """A text."""
        entry = self.entry(key)
        if entry is None:
            return default
        if isinstance(entry.node, Scalar) and isinstance(entry.node.value, str):
            return entry.node.value
        self.complain(key, f"must be a text, got {show(entry.node)}.", "Put it in quotes.")
        return default

    def flag(self, key: str) -> bool:
        """True or false; false when it is missing."""
        entry = self.entry(key)
        if entry is None:
            return False
        if isinstance(entry.node, Scalar) and isinstance(entry.node.value, bool):
            return entry.node.value
        self.complain(key, f"must be true or false, got {show(entry.node)}.")
        return False

    def number(self, key: str, default: float, bounds: Bounds = ANY) -> float:
        """A number."""
        entry = self.entry(key)
        return default if entry is None else self._bounded(key, number_of(entry.node), default, bounds, "a number")

    def whole(self, key: str, default: int, bounds: Bounds = ANY) -> int:
        """A whole number."""
        entry = self.entry(key)
        if entry is None:
            return default
        return int(self._bounded(key, whole_of(entry.node), default, bounds, "a whole number"))

    def one_of(self, key: str, default: str, known: Collection[str], what: str) -> str:
        """One of the known words."""
        entry = self.entry(key)
        if entry is None:
            return default
        word = entry.node.value if isinstance(entry.node, Scalar) else None
        if isinstance(word, str) and word in known:
            return word
        hint = did_you_mean(str(word), known) if isinstance(word, str) else did_you_mean("", known)
        self.complain(key, f"unknown {what} {show(entry.node)}; known are {', '.join(known)}.", hint)
        return default

    def section(self, key: str, known: Collection[str]) -> Section | None:
        """The mapping behind a key."""
        entry = self.entry(key)
        if entry is None:
            return None
        if isinstance(entry.node, Table):
            return Section(entry.node, join(self.path, key), self.report, known)
        self.complain(key, f"must be a mapping, got {show(entry.node)}.", f"Its keys are: {', '.join(known)}.")
        return None

    def items(self, key: str, example: str) -> Iterable[tuple[str, Node]]:
        """The items of the list behind a key, each with its path."""
        entry = self.entry(key)
        if entry is None:
            return
        if not isinstance(entry.node, Items):
            self.complain(key, f"must be a list, got {show(entry.node)}.", f"Write for example {key}: {example}")
            return
        for index, node in enumerate(entry.node.nodes):
            yield f"{join(self.path, key)}[{index}]", node

    def _bounded(self, key: str, value: float | None, default: float, bounds: Bounds, what: str) -> float:
        limits = f", {bounds}" if str(bounds) else ""
        if value is None or not bounds.allows(value):
            node = self.table.entries[key].node
            self.complain(key, f"must be {what}{limits}; got {show(node)}.")
            return default
        return value


def number_of(node: Node) -> int | float | None:
    """The number that stands there, also where quotes or YAML 1.1 made a text such as ``1e-6`` of it."""
    if not isinstance(node, Scalar) or isinstance(node.value, bool) or node.value is None:
        return None
    if isinstance(node.value, str):
        text = node.value.strip()
        if len(text) > 40 or not _NUMBER.fullmatch(text):
            return None
        return int(text) if text.lstrip("+-").isdigit() else _finite(float(text))
    return node.value


def whole_of(node: Node) -> int | None:
    """The whole number that stands there; ``1e3`` and ``20.0`` are whole too."""
    value = number_of(node)
    return int(value) if value is not None and abs(value) < MAX_INT and value == int(value) else None


def show(value: Node | JsonValue) -> str:
    """A value for a message: as JSON, shortened."""
    text = json.dumps(plain(value) if isinstance(value, Scalar | Items | Table) else value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _finite(value: float) -> float | None:
    return value if abs(value) != float("inf") else None
