"""YAML or JSON text to a document tree: safe, bounded, and with the place of every key.

Scalars are read by the rules of YAML 1.2 (the JSON-like ones), not by PyYAML's YAML 1.1: ``1e-6`` is a number, and
``on``, ``yes`` or ``12:30`` are texts.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import yaml
from yaml.composer import Composer
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from autotune.errors import Problem
from autotune.spec.nodes import Entry, Items, Node, Place, Scalar, Table, join

MAX_BYTES = 128 * 1024
MAX_DEPTH = 20
MAX_NODES = 10_000
MAX_INT = 2**63

_PLAIN = {"str", "int", "float", "bool", "null", "seq", "map"}


class _TooDeepError(yaml.MarkedYAMLError):
    """The document is nested too deeply."""


class _Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """Composes nodes, never builds objects; bounded in depth."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own table

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _TooDeepError(problem=f"nested more than {MAX_DEPTH} levels deep", problem_mark=self.get_mark())
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("int", r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
):
    for _char in _first:
        _entry = (f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"))
        _Loader.yaml_implicit_resolvers.setdefault("" if _char == "\0" else _char, []).append(_entry)


def read_text(path: Path) -> str:
    """The text of a file; of one that is larger than ``MAX_BYTES`` only enough to see that.

    Raises:
        OSError: If the file cannot be read.
        UnicodeDecodeError: If it is not UTF-8.
    """
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    return data.decode("utf-8-sig", errors="strict" if len(data) <= MAX_BYTES else "replace")


def read_document(text: str, file: str) -> tuple[Table | None, list[Problem]]:
    """Reads one YAML or JSON document whose top is a mapping.

    Args:
        text: The text; a byte order mark is ignored.
        file: The file's name for messages.

    Returns:
        The tree, ``None`` if there is no usable one, and everything that is wrong.
    """
    if len(text.encode(errors="replace")) > MAX_BYTES:
        return None, [Problem(message=f"the file is larger than {MAX_BYTES // 1024} KiB.", file=file, line=1, column=1)]
    try:
        root = _Loader(text.removeprefix("\ufeff")).get_single_node()
    except yaml.YAMLError as error:
        return None, [_syntax_problem(error, text, file)]
    if root is None:
        message = "the file is empty."
        return None, [Problem(message=message, hint="Start with `name:` and `extends:`.", file=file, line=1, column=1)]
    converter = _Converter(file)
    node = converter.convert(root, "", ())
    if not isinstance(node, Table):
        message = "a space file is a mapping of keys such as `name:` and `search:`."
        converter.complain(root, "", message)
        return None, converter.problems
    return node, converter.problems


def _syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    line, column, what = 1, 1, str(error)
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        what = " ".join(part for part in (error.context, error.problem) if part)
    elif isinstance(error, ReaderError):
        before = text[: error.position]
        line, column = before.count("\n") + 1, error.position - (before.rfind("\n") + 1) + 1
        what = f"the character {error.character!r} is not allowed"
    if isinstance(error, _TooDeepError):
        hint = "A space file needs five levels at most."
    elif "\\t" in what or "'\t'" in what:
        hint = "Indent with spaces, not with tabs."
    else:
        hint = "Check the indentation, quotes and brackets just before this place."
    return Problem(message=f"this is not valid YAML: {what}.", hint=hint, file=file, line=line, column=column)


class _Converter:
    """PyYAML's nodes to ours; counts what aliases expand to, so that a small file cannot become a huge one."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.count = 0

    def place(self, node: yaml.Node) -> Place:
        return (self.file, node.start_mark.line + 1, node.start_mark.column + 1)

    def complain(self, node: yaml.Node, path: str, message: str, hint: str = "") -> None:
        file, line, column = self.place(node)
        self.problems.append(Problem(message=message, hint=hint, path=path, file=file, line=line, column=column))

    def convert(self, node: yaml.Node, path: str, parents: tuple[int, ...]) -> Node:
        self.count += 1
        if self.count == MAX_NODES:
            self.complain(node, path, f"the file expands to more than {MAX_NODES} values.", "Use fewer YAML aliases.")
        tag = str(node.tag).removeprefix("tag:yaml.org,2002:")
        if self.count >= MAX_NODES or id(node) in parents:
            if id(node) in parents:
                self.complain(node, path, "this anchor contains an alias to itself.", "Write the value out.")
            return Scalar(value=None, place=self.place(node))
        if tag not in _PLAIN:
            hint = "Remove the tag; only plain texts, numbers, lists and mappings are read."
            self.complain(node, path, f"the YAML tag {node.tag!r} is not allowed.", hint)
            return Scalar(value=None, place=self.place(node))
        inside = (*parents, id(node))
        if isinstance(node, yaml.MappingNode):
            return self.table(node, path, inside)
        if isinstance(node, yaml.SequenceNode):
            nodes = tuple(self.convert(item, f"{path}[{i}]", inside) for i, item in enumerate(node.value))
            return Items(nodes=nodes, place=self.place(node))
        return Scalar(value=self.scalar(node, tag, path), place=self.place(node))

    def table(self, node: yaml.MappingNode, path: str, parents: tuple[int, ...]) -> Table:
        entries: dict[str, Entry] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self.complain(key_node, path, "a key must be a word.", "Put the list or mapping behind a key.")
                continue
            key = str(key_node.value)
            if not _is_unicode(key):
                self.complain(key_node, path, "a key holds half a character.", "Write it without \\u escapes.")
                continue
            if key in entries:
                first = entries[key].place[1]
                message = f"the key {key!r} is given twice; the first one stands on line {first}."
                self.complain(key_node, join(path, key), message, "Remove one of the two.")
                continue
            inner = self.convert(value_node, join(path, key), parents)
            entries[key] = Entry(node=inner, place=self.place(key_node))
        return Table(entries=entries, place=self.place(node))

    def scalar(self, node: yaml.Node, tag: str, path: str) -> bool | int | float | str | None:
        text = str(node.value)
        if not _is_unicode(text):
            self.complain(node, path, "the text holds half a character.", "Write it without \\u escapes.")
            return None
        if tag == "null":
            return None
        if tag == "bool":
            return text.lower() == "true"
        try:
            if tag == "int":
                number = int(text, 0) if text[:2] in ("0x", "0o") else int(text[:40])
                if abs(number) < MAX_INT:
                    return number
                self.complain(node, path, f"the number {text[:24]} is too large.", "At most 63 bits are read.")
                return None
            if tag == "float":
                value = float(re.sub(r"\.(inf|nan)", r"\1", text.lower()))
                if math.isfinite(value):
                    return value
                self.complain(node, path, f"{text[:24]} is not a finite number.", "Write a finite number.")
                return None
        except ValueError:
            self.complain(node, path, f"{text[:24]!r} is not a number.", "Remove the YAML tag.")
            return None
        return text


def _is_unicode(text: str) -> bool:
    """Whether the text can be written as UTF-8: the escape of a surrogate makes half a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
