"""Follows ``extends`` from file to file and lays each one over what it builds on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autotune.spec.aliases import ALIASES
from autotune.spec.document import read_document, read_text
from autotune.spec.merging import merge, normalise
from autotune.spec.nearest import did_you_mean
from autotune.spec.nodes import Entry, Scalar, Table
from autotune.spec.reader import Report, show

MAX_FILES = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A file on the way from a space to what it builds on.

    Attributes:
        file: Its name for messages.
        directory: Relative paths start here; ``None`` = the text came without a file, and may name shipped spaces only.
        identity: What tells it from other files, for circles.
    """

    file: str
    directory: Path | None
    identity: str


def expand(text: str, source: Source, catalogue: Mapping[str, Path], report: Report) -> Table | None:
    """The document with everything it extends merged in and ``extends`` itself gone; ``None`` if it cannot be read."""
    tables = _files(text, source, catalogue, report, ())
    # A program's parameters are called what its author calls them; short names are those of the PPO trainers.
    report.aliases = {} if _backend(tables) == "command" else ALIASES
    merged: Table | None = None
    for table in reversed(tables):
        table = normalise(table, report)
        merged = table if merged is None else merge(merged, table, report)
    return merged


def _files(
    text: str, source: Source, catalogue: Mapping[str, Path], report: Report, chain: tuple[Source, ...]
) -> list[Table]:
    """The documents along ``extends``, this one first; none if it cannot be read itself."""
    table, problems = read_document(text, source.file)
    report.problems += problems
    if table is None:
        return []
    entry = table.entries.get("extends")
    own = Table(entries={key: value for key, value in table.entries.items() if key != "extends"}, place=table.place)
    if entry is None or (isinstance(entry.node, Scalar) and entry.node.value is None):
        return [own]
    found = _locate(entry, source, catalogue, report, (*chain, source))
    below = [] if found is None else _files(*found, catalogue, report, (*chain, source))
    report.partial = report.partial or not below
    return [own, *below]


def _backend(tables: Iterable[Table]) -> str:
    """The backend that the topmost file names which names one."""
    for table in tables:
        trainer = table.entries.get("trainer")
        backend = trainer.node.entries.get("backend") if trainer and isinstance(trainer.node, Table) else None
        if backend is not None and isinstance(backend.node, Scalar) and backend.node.value is not None:
            return str(backend.node.value)
    return "native"


def _locate(
    entry: Entry, source: Source, catalogue: Mapping[str, Path], report: Report, chain: tuple[Source, ...]
) -> tuple[str, Source] | None:
    place = entry.node.place
    target = entry.node.value if isinstance(entry.node, Scalar) else None
    if not isinstance(target, str) or not target:
        hint = "Write for example extends: quickstart"
        report.add(place, "extends", f"must be the name of a shipped space or a path, got {show(entry.node)}.", hint)
        return None
    if is_path(target):
        if source.directory is None:
            hint = f"Send the merged file, or extend one of: {', '.join(catalogue)}."
            message = f"the path {target!r} cannot be followed: this space came as text, without a directory."
            report.add(place, "extends", message, hint)
            return None
        path = source.directory / target
        shown = os.path.normpath(Path(source.file).parent / target)
    elif target in catalogue:
        path = catalogue[target]
        shown = path.name
    else:
        hint = did_you_mean(target, catalogue)
        report.add(place, "extends", f"there is no shipped space {target!r}.", f"{hint} A path ends in .yaml.".strip())
        return None
    identity = str(path.resolve())
    circle = [link.identity for link in chain]
    if identity in circle:
        names = " -> ".join([*(link.file for link in chain[circle.index(identity) :]), shown])
        report.add(place, "extends", f"the files extend each other in a circle: {names}.", "Remove one `extends`.")
        return None
    if len(chain) >= MAX_FILES:
        report.add(place, "extends", f"more than {MAX_FILES} files extend each other.", "Merge some of them.")
        return None
    try:
        text = read_text(path)
    except OSError as error:
        hint = "The path starts at the directory of the file that names it."
        report.add(place, "extends", f"cannot read {shown!r}: {error.strerror or error}.", hint)
        return None
    except UnicodeDecodeError:
        report.add(place, "extends", f"{shown!r} is not UTF-8 text.", "Save it as UTF-8.")
        return None
    return text, Source(file=shown, directory=path.parent, identity=identity)


def is_path(target: str) -> bool:
    """Whether the word names a file and not a shipped space."""
    return "/" in target or os.sep in target or Path(target).suffix in (".yaml", ".yml", ".json")
