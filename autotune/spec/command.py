"""Reads the command of ``backend: command``: its arguments, parameters and environment."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from autotune.spec.nearest import did_you_mean
from autotune.spec.nodes import Items, Node, Place, Scalar, Table, join
from autotune.spec.placeholders import BUILT_IN, placeholders, written
from autotune.spec.reader import Section, show
from autotune.spec.values import JsonValue

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_POWER = re.compile(r"[-+]?\d+[eE][-+]?\d{1,2}")
_EXAMPLE = '[python, train.py, "--lr={lr}"]'
RESERVED = ("steps", "output_dir", "config", "backend")
"""Words that are no names of parameters: they mean something of their own."""


def read_parameters(section: Section) -> Mapping[str, JsonValue]:
    """The declared parameters with their defaults."""
    entry = section.entry("parameters")
    if entry is None or (isinstance(entry.node, Table) and not entry.node.entries):
        section.missing("parameters", "Declare them with their defaults, for example parameters: {lr: 0.001}")
        return {}
    if not isinstance(entry.node, Table):
        section.complain("parameters", f"must be a mapping, got {show(entry.node)}.", "Write parameters: {lr: 0.001}")
        return {}
    found: dict[str, JsonValue] = {}
    for name, item in entry.node.entries.items():
        path = join(section.path, f"parameters.{name}")
        around = next((n for n in found if name.startswith(f"{n}.") or n.startswith(f"{name}.")), None)
        if not _NAME.fullmatch(name):
            message = f"{name!r} is not a name: letters, digits, '_' and single dots, with a letter first."
            section.report.add(item.place, path, message, f"Write for example {_slug(name)}.")
        elif name.split(".")[0] in RESERVED:
            hint = f"It means: {BUILT_IN[name]}." if name in BUILT_IN else ""
            message = f"{name!r} has a meaning of its own and cannot be a parameter."
            section.report.add(item.place, path, message, f"{hint} Call it something else.".strip())
        elif around is not None:
            message = f"{name!r} and {around!r} cannot both exist: one would lie inside the other."
            section.report.add(item.place, path, message, "Rename one of the two.")
        elif not isinstance(item.node, Scalar):
            message = f"must be a number, a text, true, false or null, got {show(item.node)}."
            section.report.add(item.node.place, path, message, "Write for example lr: 0.001")
        else:
            found[name] = unquoted(item.node.value)
    return found


def unquoted(value: JsonValue) -> JsonValue:
    """A number where YAML 1.1 made a text of it: ``1e-3``; nobody means a text by that."""
    return float(value) if isinstance(value, str) and _POWER.fullmatch(value) else value


def read_command(section: Section, parameters: Mapping[str, JsonValue], used: set[str]) -> tuple[str, ...]:
    """The program and its arguments; adds the placeholders in them to ``used``."""
    entry = section.entry("command")
    if entry is None:
        section.missing("command", f"Write for example command: {_EXAMPLE}")
        return ()
    path = join(section.path, "command")
    node = entry.node
    if isinstance(node, Scalar) and isinstance(node.value, str):
        try:
            parts = shlex.split(node.value)
        except ValueError as error:
            section.complain("command", f"cannot be split into arguments: {error}.", "Write it as a list.")
            return ()
        _look(section, node.value, (node.place, path), parameters, used)
    elif isinstance(node, Items):
        parts = [_argument(section, item, f"{path}[{index}]") for index, item in enumerate(node.nodes)]
        for index, part in enumerate(parts):
            _look(section, part, (node.nodes[index].place, f"{path}[{index}]"), parameters, used)
    else:
        section.complain("command", f"must be a list, got {show(node)}.", f"Write for example command: {_EXAMPLE}")
        return ()
    if not parts or not parts[0].strip():
        section.complain("command", "names no program.", f"Write for example command: {_EXAMPLE}")
        return ()
    return tuple(parts)


def read_env(
    section: Section, parameters: Mapping[str, JsonValue] | None, used: set[str] | None = None
) -> Mapping[str, str]:
    """The environment variables; ``parameters=None`` = there are no placeholders in them."""
    entry = section.entry("env")
    if entry is None:
        return {}
    if not isinstance(entry.node, Table):
        section.complain("env", f"must be a mapping, got {show(entry.node)}.", "Write for example env: {DEBUG: 1}")
        return {}
    found: dict[str, str] = {}
    for name, item in entry.node.entries.items():
        path = join(section.path, f"env.{name}")
        if not _VARIABLE.fullmatch(name):
            section.report.add(item.place, path, f"{name!r} is not the name of an environment variable.", "")
        elif not isinstance(item.node, Scalar) or item.node.value is None:
            section.report.add(item.node.place, path, f"must be a text or a number, got {show(item.node)}.", "")
        else:
            found[name] = written(item.node.value)
            if parameters is not None and used is not None:
                _look(section, found[name], (item.node.place, path), parameters, used)
    return found


def _argument(section: Section, node: Node, path: str) -> str:
    if isinstance(node, Scalar) and node.value is not None:
        return written(node.value)
    hint = 'In a list, put an argument with a placeholder in quotes: "--lr={lr}"'
    section.report.add(node.place, path, f"must be a text or a number, got {show(node)}.", hint)
    return "?"


def _look(
    section: Section, text: str, at: tuple[Place, str], parameters: Mapping[str, JsonValue], used: set[str]
) -> None:
    declared = section.entry("parameters")
    written_names = declared.node.entries if declared is not None and isinstance(declared.node, Table) else {}
    for name in placeholders(text):
        used.add(name)
        if name not in parameters and name not in BUILT_IN and name not in written_names:
            near = did_you_mean(name, [*parameters, *BUILT_IN])
            hint = f"{near} Declare it under parameters, or write {{{{{name}}}}} for the braces themselves."
            section.report.add(at[0], at[1], f"the placeholder {{{name}}} is not a declared parameter.", hint)


def _slug(name: str) -> str:
    slug = re.sub(r"\W+", "_", name).strip("_")
    return slug if slug and not slug[0].isdigit() else f"p_{slug}".rstrip("_")
