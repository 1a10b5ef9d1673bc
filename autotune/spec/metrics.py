"""Reads ``trainer.metrics``: where the metrics of a command are found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from autotune.spec.nearest import did_you_mean
from autotune.spec.nodes import Entry, Items, Place, Scalar, Table, join
from autotune.spec.reader import Section, show
from autotune.spec.types import MetricsSpec

READERS: Mapping[str, str] = {
    "jsonl": "One JSON object per line; names are its fields.",
    "regex": "Regular expressions with named groups; names are the groups.",
    "csv": "A table with a header; names are its columns.",
}
KEYS = ("read", "file", "step", "patterns", "names")
_METRIC = re.compile(r"[A-Za-z_][\w/.-]*")
_PATTERN = r"'step (?P<step>\d+) loss (?P<loss>\S+)'"


def read_metrics(section: Section) -> MetricsSpec:
    """How the metrics are read."""
    before = len(section.report.problems)
    # A key that is unknown here is most likely a misspelt one, and that is reported already.
    if section.entry("read") is None and set(section.table.entries) <= set(KEYS):
        section.missing("read", f"It is one of {', '.join(READERS)}.")
    read = section.one_of("read", "jsonl", READERS, "reader")
    is_read_known = len(section.report.problems) == before
    names = _names(section)
    step = section.text("step", "step")
    patterns = _patterns(section, {**{step: step}, **names} if names else {}) if read == "regex" else ()
    if read != "regex" and is_read_known and section.entry("patterns") is not None:
        section.complain("patterns", "'patterns' goes with read: regex.", "Remove it, or write read: regex.")
    return MetricsSpec(read=read, file=_file(section, read), step=step, patterns=patterns, names=names)


def _names(section: Section) -> Mapping[str, str]:
    entry = section.entry("names")
    hint = "Write for example names: [loss], or names: {eval/loss: val_loss}"
    found: dict[str, str] = {}
    if entry is None:
        section.missing("names", f"No metric is declared. {hint}")
    elif isinstance(entry.node, Items):
        for index, item in enumerate(entry.node.nodes):
            name = item.value if isinstance(item, Scalar) else None
            path = f"{join(section.path, 'names')}[{index}]"
            if _is_metric(section, name, item.place, path) and isinstance(name, str):
                found[name] = name
    elif isinstance(entry.node, Table):
        for metric, inner in entry.node.entries.items():
            path = join(section.path, f"names.{metric}")
            if _is_metric(section, metric, inner.place, path):
                found[metric] = _source(section, metric, inner, path)
    else:
        section.complain("names", f"must be a list or a mapping, got {show(entry.node)}.", hint)
    if entry is not None and isinstance(entry.node, Items | Table) and not _size(entry.node):
        section.complain("names", "no metric is declared.", hint)
    return found


def _size(node: Items | Table) -> int:
    return len(node.nodes) if isinstance(node, Items) else len(node.entries)


def _is_metric(section: Section, name: object, place: Place, path: str) -> bool:
    if isinstance(name, str) and _METRIC.fullmatch(name):
        return True
    message = f"{name!r} is not the name of a metric: letters, digits, '_', '/', '.' and '-', with a letter first."
    section.report.add(place, path, message, "Write for example eval/loss.")
    return False


def _source(section: Section, name: str, item: Entry, path: str) -> str:
    value = item.node.value if isinstance(item.node, Scalar) else False
    if value is None:
        return name
    if not isinstance(value, str) or not value:
        message = f"must be the field, group or column that holds it, got {show(item.node)}."
        section.report.add(item.node.place, path, message, f"Write for example {name}: val_loss")
        return name
    return value


def _patterns(section: Section, sought: Mapping[str, str]) -> tuple[str, ...]:
    if section.entry("patterns") is None:
        section.missing("patterns", f"Write for example patterns: [{_PATTERN}]")
        return ()
    before = len(section.report.problems)
    found: list[str] = []
    groups: set[str] = set()
    for path, node in section.items("patterns", f"[{_PATTERN}]"):
        text = node.value if isinstance(node, Scalar) else None
        if not isinstance(text, str):
            section.report.add(node.place, path, f"must be a text, got {show(node)}.", "Put it in single quotes.")
            continue
        try:
            compiled = re.compile(text)
        except re.error as error:
            at = "" if error.pos is None else f" at character {error.pos + 1}"
            message = f"is not a regular expression: {error.msg}{at}."
            section.report.add(node.place, path, message, f"Write for example {_PATTERN}")
            continue
        if not compiled.groupindex:
            hint = f"Name the groups after what they hold, for example {_PATTERN}"
            section.report.add(node.place, path, "has no named group, so it can read nothing.", hint)
            continue
        groups.update(compiled.groupindex)
        found.append(text)
    if not found and len(section.report.problems) == before:
        section.complain("patterns", "there is no pattern.", f"Write for example patterns: [{_PATTERN}]")
    if len(section.report.problems) == before:
        _covered(section, sought, groups)
    return tuple(found)


def _covered(section: Section, sought: Mapping[str, str], groups: set[str]) -> None:
    entry = section.entry("names")
    for metric, group in sought.items():
        is_named_step = group == section.text("step", "step") and metric == group
        if group in groups or (is_named_step and section.entry("step") is None):
            continue
        place = section.table.place if entry is None else entry.node.place
        if entry is not None and isinstance(entry.node, Table) and metric in entry.node.entries:
            place = entry.node.entries[metric].place
        message = f"no pattern has a group {group!r}."
        hint = f"{did_you_mean(group, groups)} Write it as (?P<{group}>...) in a pattern."
        section.report.add(place, join(section.path, "step" if is_named_step else f"names.{metric}"), message, hint)


def _file(section: Section, read: str) -> str:
    file = section.text("file")
    if section.entry("file") is None:
        if read == "csv":
            section.missing("file", "Write for example file: log.csv, and let the program write {output_dir}/log.csv")
        return ""
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts or not path.name or "{" in file:
        hint = "Write for example file: log.csv, and let the program write {output_dir}/log.csv"
        section.complain("file", f"must be a path within the trial's {{output_dir}}, got {file!r}.", hint)
        return ""
    return file
