"""Reads ``prune``: pruners by name with their options, completed by the defaults of the table of pruners."""

from __future__ import annotations

from autotune.errors import InvalidSpaceError
from autotune.spec.nearest import did_you_mean
from autotune.spec.nodes import Entry, Node, Scalar, Table, is_null
from autotune.spec.plugin_pruners import pruner_kind, pruner_names
from autotune.spec.pruning import Option, OptionKind, PrunerKind
from autotune.spec.reader import Section, show
from autotune.spec.types import PrunerSpec
from autotune.spec.values import JsonValue


def read_prune(top: Section, objective_metric: str) -> tuple[PrunerSpec, ...]:
    """The pruners in the order of the file, every option filled in."""
    found: list[PrunerSpec] = []
    for path, node in top.items("prune", "[{asha: {min_steps: 20}}, not_finite]"):
        named = _named(node)
        if named is None:
            message = f"must be a pruner's name or one name with its options, got {show(node)}."
            top.report.add(node.place, path, message, "Write for example {kl_ceiling: {above: 0.15}}")
            continue
        name, entry = named
        known = pruner_names()
        if name not in known:
            hint = did_you_mean(name, known)
            top.report.add(entry.place, path, f"unknown pruner {name!r}; known are {', '.join(known)}.", hint)
            continue
        if any(spec.name == name for spec in found):
            top.report.add(entry.place, path, f"the pruner {name!r} is given twice.", "Remove one of the two.")
            continue
        try:
            kind = pruner_kind(name)
        except InvalidSpaceError as error:
            top.report.add(entry.place, path, error.message, error.hint)
            continue
        options = _options(name, kind, entry, f"{path}.{name}", top, objective_metric)
        if options is not None:
            found.append(PrunerSpec(name=name, options=options))
    return tuple(found)


def _named(node: Node) -> tuple[str, Entry] | None:
    """The pruner's name and what stands behind it, from ``not_finite`` or ``{asha: {...}}``."""
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return node.value, Entry(node=Scalar(value=None, place=node.place), place=node.place)
    if isinstance(node, Table) and len(node.entries) == 1:
        return next(iter(node.entries.items()))
    return None


def _options(
    name: str, kind: PrunerKind, entry: Entry, path: str, top: Section, objective_metric: str
) -> dict[str, JsonValue] | None:
    known = kind.options
    node = Table(entries={}, place=entry.place) if is_null(entry.node) else entry.node
    if not isinstance(node, Table):
        hint = f"Its options are: {', '.join(known)}."
        top.report.add(node.place, path, f"the options of {name} must be a mapping, got {show(node)}.", hint)
        return None
    section = Section(node, path, top.report, known)
    options: dict[str, JsonValue] = {}
    for key, option in known.items():
        if option.required and section.entry(key) is None:
            hint = f"Write for example {kind.example}"
            section.complain(key, f"the option {key!r} is missing. {option.description}", hint)
            continue
        options[key] = _option(section, key, option, objective_metric)
    return options


def _option(section: Section, key: str, option: Option, objective_metric: str) -> JsonValue:
    if option.kind is OptionKind.METRIC:
        return section.text(key, str(option.default or objective_metric))
    if option.kind is OptionKind.WORD:
        return section.one_of(key, str(option.default), option.words, key)
    # A missing required option is complained about before; the fallback only has to lie inside the bounds.
    fallback = option.default if isinstance(option.default, int | float) else 1
    if option.kind is OptionKind.WHOLE:
        return section.whole(key, int(fallback), option.bounds)
    return section.number(key, fallback, option.bounds)
