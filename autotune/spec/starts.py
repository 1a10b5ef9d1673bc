"""Reads ``start_from``: the configurations that are tried before the sampler proposes."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.spec import known
from autotune.spec.bounds import Bounds
from autotune.spec.domains import contains, describe_domain, same
from autotune.spec.nearest import did_you_mean
from autotune.spec.nodes import Node, Scalar, Table, join
from autotune.spec.reader import Section, number_of, show, whole_of
from autotune.spec.types import Choice, Domain, FloatRange, Parameter, Start, WarmStart
from autotune.spec.values import JsonValue

_EXAMPLE = "[default, {clip_ratio: 0.1}, {job: earlier-1, top: 5}]"
_WHERE = {"job": "earlier-1", "optuna": "sqlite:///old.db"}
TRIED = "tried"
"""The only key of an item that a changed space has in place of a start that was tried before."""
_TOP = Bounds(low=1, high=100)


def read_warm_starts(top: Section, search: Mapping[str, Parameter]) -> tuple[WarmStart, ...]:
    """The items of ``start_from`` that name an earlier search."""
    found: list[WarmStart] = []
    for place, (path, node) in enumerate(top.items("start_from", _EXAMPLE)):
        kind = _warm(node, search)
        if kind is None or not isinstance(node, Table):
            continue
        section = Section(node, path, top.report, known.WARM_STARTS[kind])
        where = section.text(kind)
        if not where and section.entry(kind) is None:
            section.complain(kind, "names nothing.", f"Write for example {kind}: {_WHERE[kind]}")
        found.append(
            WarmStart(
                place=place,
                job=where if kind == "job" else "",
                optuna=where if kind == "optuna" else "",
                study=section.text("study") if kind == "optuna" else "",
                top=section.whole("top", 1, _TOP),
            )
        )
    return tuple(found)


def _warm(node: Node, search: Mapping[str, Parameter]) -> str | None:
    """What kind of earlier search an item names, if it names one; a parameter of that name goes first."""
    kinds = [kind for kind in known.WARM_STARTS if kind not in search]
    return next((kind for kind in kinds if isinstance(node, Table) and kind in node.entries), None)


def _tried(node: Node, search: Mapping[str, Parameter]) -> Node | None:
    """What stands behind ``{tried: ...}``, which a changed space has in place of what was tried before."""
    if isinstance(node, Table) and TRIED not in search and list(node.entries) == [TRIED]:
        return node.entries[TRIED].node
    return None


def read_starts(top: Section, search: Mapping[str, Parameter]) -> tuple[Start, ...]:
    """The starts in the order of the file: ``default``, ``start-1``, ``start-2``..."""
    starts: list[Start] = []
    for path, node in top.items("start_from", _EXAMPLE):
        if _warm(node, search) is not None:
            continue
        inner = _tried(node, search)
        if inner is not None:
            number = 1 + sum(earlier.label != "default" for earlier in starts)
            label = "default" if isinstance(inner, Scalar) else f"start-{number}"
            starts.append(Start(label=label, tried=True))
            continue
        if isinstance(node, Scalar) and node.value == "default":
            start = Start(label="default")
        elif isinstance(node, Table) and node.entries:
            number = 1 + sum(earlier.label != "default" for earlier in starts)
            start = Start(label=f"start-{number}", values=_values(node, path, search, top))
        else:
            message = f"must be the word default or a mapping of searched parameters, got {show(node)}."
            top.report.add(node.place, path, message, "Write for example {clip_ratio: 0.1, kl_coef: 0.001}")
            continue
        untried = (earlier for earlier in starts if not earlier.tried)
        again = next((earlier.label for earlier in untried if earlier.values == start.values), None)
        if again is not None and (start.values or start.label == again):
            top.report.add(node.place, path, f"is the same as {again!r} before it.", "Remove one of the two.")
        starts.append(start)
    return tuple(starts)


def _values(table: Table, path: str, search: Mapping[str, Parameter], top: Section) -> Mapping[str, JsonValue]:
    entry = top.table.entries.get("search")
    written = entry.node.entries if entry is not None and isinstance(entry.node, Table) else {}
    values: dict[str, JsonValue] = {}
    for name, entry in table.entries.items():
        inner = join(path, name)
        if name not in search and name in written:
            continue  # its domain is wrong; that is complained about where it stands
        if name not in search:
            hint = f"{did_you_mean(name, search)} Fixed values belong into trainer.overrides."
            top.report.add(entry.place, inner, f"{name!r} is not a searched parameter.", hint.strip())
            continue
        domain = search[name].domain
        value = value_of(entry.node, domain)
        if not contains(domain, value):
            message = f"{show(entry.node)} does not lie in the domain of {name}: {describe_domain(domain)}."
            top.report.add(entry.node.place, inner, message, "Widen the domain or change the value.")
            continue
        values[name] = value
    return values


def value_of(node: Node, domain: Domain) -> JsonValue:
    """What stands there, as a value of the domain's own type; ``None`` if it cannot be one."""
    if isinstance(domain, Choice):
        written = node.value if isinstance(node, Scalar) else None
        return next((option for option in domain.options if same(option, written)), written)
    if isinstance(domain, FloatRange):
        number = number_of(node)
        return None if number is None else float(number)
    return whole_of(node)
