"""Brings one file into its normal form (full paths, flat overrides) and merges a file over the one it extends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autotune.spec import known
from autotune.spec.nodes import Entry, Items, Node, Table, is_null, join
from autotune.spec.reader import Report


def normalise(table: Table, report: Report) -> Table:
    """Writes every parameter's path in full: in ``search``, ``trainer.overrides``, ``start_from`` and in the stages.

    Both spellings of one parameter in one place are a problem.
    """
    table = _normal(table, "", report)
    stages = table.entries.get("stages")
    if stages is None or not isinstance(stages.node, Items):
        return table
    nodes = tuple(
        _normal(node, f"stages[{index}]", report) if isinstance(node, Table) else node
        for index, node in enumerate(stages.node.nodes)
    )
    entry = Entry(node=Items(nodes=nodes, place=stages.node.place), place=stages.place)
    return Table(entries={**table.entries, "stages": entry}, place=table.place)


def _normal(table: Table, path: str, report: Report) -> Table:
    """One file, or one stage of it, with full, flat parameter paths."""
    entries = dict(table.entries)
    search = entries.get("search")
    if search is not None and isinstance(search.node, Table):
        entries["search"] = Entry(node=_full_paths(search.node, join(path, "search"), report), place=search.place)
    trainer = entries.get("trainer")
    if trainer is not None and isinstance(trainer.node, Table):
        entries["trainer"] = _within(trainer, "overrides", join(path, "trainer"), report)
    carry = entries.get("carry")
    if carry is not None and isinstance(carry.node, Table):
        entries["carry"] = _within(carry, "scale", join(path, "carry"), report)
    starts = entries.get("start_from")
    if starts is not None and isinstance(starts.node, Items):
        nodes = tuple(
            _full_paths(node, join(path, f"start_from[{index}]"), report) if isinstance(node, Table) else node
            for index, node in enumerate(starts.node.nodes)
        )
        entries["start_from"] = Entry(node=Items(nodes=nodes, place=starts.node.place), place=starts.place)
    return Table(entries=entries, place=table.place)


def _within(entry: Entry, key: str, path: str, report: Report) -> Entry:
    """The mapping behind an entry with the parameters under ``key`` written flat and in full."""
    assert isinstance(entry.node, Table)
    inner = entry.node.entries.get(key)
    if inner is None or not isinstance(inner.node, Table):
        return entry
    flat = Table(entries=dict(_leaves(inner.node, "")), place=inner.node.place)
    full = Entry(node=_full_paths(flat, join(path, key), report), place=inner.place)
    return Entry(node=Table(entries={**entry.node.entries, key: full}, place=entry.node.place), place=entry.place)


def merge(base: Table, over: Table, report: Report) -> Table:
    """Lays the file ``over`` on the file ``base``: mappings key by key, the rest as a whole; null takes a key away.

    The last word wins on what happens to a parameter: searching it takes an inherited override away, and the other way
    round. A searched parameter that names a domain replaces the inherited one, so that ``{int: ...}`` can follow
    ``{float: ...}``. In ``trainer.overrides`` null is a value like any other. Stages take the place of an inherited
    search, and a search that of inherited stages.
    """
    if "stages" in over.entries and not is_null(over.entries["stages"].node):
        base = _without(base, known.STAGED)
    elif "search" in over.entries:
        base = _without(base, ["stages"])
    searched = [key for key, entry in _at(over, "search").items() if not is_null(entry.node)]
    fixed = list(_at(over, "trainer", "overrides"))
    base = _without(_without(base, searched, "trainer", "overrides"), fixed, "search")
    return _merge(base, over, "", report)


def _merge(base: Table, over: Table, path: str, report: Report) -> Table:
    entries = dict(base.entries)
    for key, entry in over.entries.items():
        below = entries.get(key)
        inner = join(path, key)
        if is_null(entry.node) and path != "trainer.overrides":
            if path == "search" and below is None:
                hint = "Give it a range or remove the line; null takes an inherited parameter away."
                report.add(entry.place, inner, "there is nothing here to take away.", hint)
            entries.pop(key, None)
        elif below is not None and isinstance(below.node, Table) and isinstance(entry.node, Table):
            replaced = path == "search" and any(word in entry.node.entries for word in known.DOMAINS)
            node: Node = entry.node if replaced else _merge(below.node, entry.node, inner, report)
            entries[key] = Entry(node=node, place=entry.place)
        else:
            entries[key] = entry
    return Table(entries=entries, place=over.place)


def _at(table: Table, *path: str) -> Mapping[str, Entry]:
    for key in path:
        entry = table.entries.get(key)
        if entry is None or not isinstance(entry.node, Table):
            return {}
        table = entry.node
    return table.entries


def _without(table: Table, keys: Iterable[str], *path: str) -> Table:
    """The table without ``keys`` in the mapping at ``path``."""
    if not path:
        gone = set(keys)
        return Table(entries={key: e for key, e in table.entries.items() if key not in gone}, place=table.place)
    entry = table.entries.get(path[0])
    if entry is None or not isinstance(entry.node, Table):
        return table
    inner = Entry(node=_without(entry.node, keys, *path[1:]), place=entry.place)
    return Table(entries={**table.entries, path[0]: inner}, place=table.place)


def _full_paths(table: Table, path: str, report: Report) -> Table:
    entries: dict[str, Entry] = {}
    written: dict[str, str] = {}
    for key, entry in table.entries.items():
        full = report.aliases.get(key, key)
        if full in entries:
            line = entries[full].place[1]
            message = f"{full!r} is given twice: as {written[full]!r} on line {line} and as {key!r} here."
            report.add(entry.place, join(path, key), message, "Remove one of the two.")
            continue
        entries[full] = entry
        written[full] = key
    return Table(entries=entries, place=table.place)


def _leaves(table: Table, path: str) -> list[tuple[str, Entry]]:
    leaves: list[tuple[str, Entry]] = []
    for key, entry in table.entries.items():
        if isinstance(entry.node, Table):
            leaves += _leaves(entry.node, join(path, key))
        else:
            leaves.append((join(path, key), entry))
    return leaves
