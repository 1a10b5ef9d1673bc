"""Writes the options of ``launch`` into the text of a space file, leaving every other line where it was.

The text is edited, not parsed and written anew, so that messages still point to the person's own lines and the record
keeps the person's own comments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import yaml

Setting = str | int


def adjust(text: str, settings: Mapping[str, Setting | None]) -> str:
    """Sets values in a space file.

    Args:
        text: The file, YAML or JSON.
        settings: ``key`` or ``section.key`` -> value; ``None`` leaves the file's own.

    Returns:
        The edited text; unchanged when it is no mapping, which the service then reports.
    """
    for path, value in settings.items():
        if value is not None:
            text = _set(text, path.split("."), json.dumps(value, ensure_ascii=False))
    return text


def _set(text: str, path: list[str], value: str) -> str:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return text
    if not isinstance(node, yaml.MappingNode):
        return text
    for depth, key in enumerate(path):
        child = _child(node, key)
        rest = path[depth + 1 :]
        if child is None:
            return _insert(text, node, key, _nested(rest, value))
        if not rest:
            return _replace(text, child, value)
        if not isinstance(child, yaml.MappingNode):
            # `sampler: tpe` is short for `sampler: {name: tpe}`.
            short = f"{{name: {json.dumps(child.value)}, {rest[0]}: {value}}}" if key == "sampler" else None
            return _replace(text, child, short or _nested(rest, value))
        node = child
    return text


def _nested(path: list[str], value: str) -> str:
    for key in reversed(path):
        value = f'{{"{key}": {value}}}'
    return value


def _child(node: yaml.MappingNode, key: str) -> yaml.Node | None:
    for name, child in node.value:
        if name.value == key:
            found: yaml.Node = child
            return found
    return None


def _replace(text: str, node: yaml.Node, value: str) -> str:
    before, after = text[: node.start_mark.index], text[node.end_mark.index :]
    space = "" if before.endswith((" ", "\n", "[", "{", ",")) else " "
    return before + space + value + after


def _insert(text: str, node: yaml.MappingNode, key: str, value: str) -> str:
    if node.flow_style:
        at = node.start_mark.index + 1
        separator = ", " if node.value else ""
        return f'{text[:at]}"{key}": {value}{separator}{text[at:]}'
    # After the last value, so that the fewest lines move.
    last = node.value[-1][1]
    end = len(text[: last.end_mark.index].rstrip())
    line_end = text.find("\n", end)
    at = len(text) if line_end < 0 else line_end
    return f"{text[:at]}\n{' ' * node.start_mark.column}{key}: {value}{text[at:]}"
