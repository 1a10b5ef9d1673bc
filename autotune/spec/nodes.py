"""A document as a tree in which every key and every value knows its file, line and column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from autotune.spec.values import JsonValue

Place: TypeAlias = tuple[str, int, int]
"""File, line and column; both counted from 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scalar:
    """A number, a text, true, false or null."""

    value: bool | int | float | str | None
    place: Place


@dataclass(frozen=True, kw_only=True, slots=True)
class Items:
    """A list."""

    nodes: tuple[Node, ...]
    place: Place


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One key of a table with its value; ``place`` is the key's."""

    node: Node
    place: Place


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A mapping, in the order of the file."""

    entries: Mapping[str, Entry]
    place: Place


Node: TypeAlias = Scalar | Items | Table


def plain(node: Node) -> JsonValue:
    """The tree without its places."""
    match node:
        case Scalar():
            return node.value
        case Items():
            return [plain(item) for item in node.nodes]
        case Table():
            return {key: plain(entry.node) for key, entry in node.entries.items()}


def is_null(node: Node) -> bool:
    """Whether nothing is written there: ``key:`` or ``key: null``."""
    return isinstance(node, Scalar) and node.value is None


def places(node: Node, path: str = "") -> Iterable[tuple[str, Place]]:
    """Every place of a document by dotted path.

    ``budget.trials`` is where that key stands, ``budget.trials:`` (with a colon) where its value stands, ``require[0]``
    is the first item of a list.
    """
    match node:
        case Table():
            for key, entry in node.entries.items():
                inner = join(path, key)
                yield inner, entry.place
                yield inner + ":", entry.node.place
                yield from places(entry.node, inner)
        case Items():
            for index, item in enumerate(node.nodes):
                yield f"{path}[{index}]", item.place
                yield from places(item, f"{path}[{index}]")
        case Scalar():
            return


def join(path: str, key: str) -> str:
    """The path of ``key`` inside ``path``."""
    return f"{path}.{key}" if path else key
