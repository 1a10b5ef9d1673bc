"""Reads the searched parameters: ranges, choices, priors and the conditions under which a parameter exists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from autotune.spec import known
from autotune.spec.domains import contains, describe_domain, same
from autotune.spec.expression_nodes import ExpressionError
from autotune.spec.expressions import Expression, parse
from autotune.spec.nodes import Items, Place, Scalar, Table, join
from autotune.spec.reader import Report, Section, number_of, show, whole_of
from autotune.spec.types import Choice, Domain, FloatRange, IntRange, Parameter
from autotune.spec.values import JsonValue

MAX_STEPS = 2**40
"""More steps than this are no grid any more, and rounding errors would decide what lies on it."""
_EXAMPLE = "{float: [1e-6, 1e-5], log: true}"
MAX_NUMBER = 1e100
Ends: TypeAlias = tuple[float, float]


def read_search(section: Section) -> Mapping[str, Parameter]:
    """The parameters of ``search`` in the order of the file, by full path."""
    found: dict[str, Parameter] = {}
    for path, entry in section.table.entries.items():
        inner = join(section.path, path)
        if not isinstance(entry.node, Table):
            message = f"must be a mapping with float, int or choice, got {show(entry.node)}."
            section.report.add(entry.node.place, inner, message, f"Write for example {path}: {_EXAMPLE}")
            continue
        body = Section(entry.node, inner, section.report, known.PARAMETER)
        domain = _domain(body)
        when = _when(body)
        if domain is not None:
            found[path] = Parameter(path=path, domain=domain, when=when, prior=_prior(body, domain))
    _refuse_circles(found, section)
    return found


def read_expression(text: str, place: Place, path: str, report: Report) -> Expression | None:
    """A condition with the short names in it resolved; nothing if it cannot be read."""
    try:
        return parse(text, lambda name: report.aliases.get(name, name))
    except ExpressionError as error:
        column = error.problems[0].column if error.problems else 1
        report.add(place, path, f"{error.message.removesuffix('.')} (at character {column}).", error.hint)
        return None


def _domain(body: Section) -> Domain | None:
    given = [word for word in known.DOMAINS if body.entry(word) is not None]
    if not given and body.table.entries.keys() - known.PARAMETER:
        return None  # most likely a misspelt domain, and that is reported already
    if len(given) != 1:
        got = f"has {' and '.join(given)}" if given else "has no domain"
        place = body.table.place
        message = f"needs exactly one of float, int and choice, but {got}."
        body.report.add(place, body.path, message, f"Write for example {_EXAMPLE}")
        return None
    if given[0] == "choice":
        for key in ("log", "step"):
            if body.entry(key) is not None:
                body.complain(key, f"{key!r} goes with float and int, not with choice.", "Remove it.")
        return _choice(body)
    readers: Mapping[str, Callable[[Section], Domain | None]] = {"float": _float, "int": _int}
    return readers[given[0]](body)


def _choice(body: Section) -> Choice | None:
    node = body.table.entries["choice"].node
    if not isinstance(node, Items) or not node.nodes:
        got = "an empty list" if isinstance(node, Items) else show(node)
        body.complain("choice", f"must be a list of values, got {got}.", "Write for example choice: [32, 64, 128]")
        return None
    options: list[JsonValue] = []
    for index, item in enumerate(node.nodes):
        path = f"{body.path}.choice[{index}]"
        if not isinstance(item, Scalar):
            message = f"must be a number, a text, true, false or null, got {show(item)}."
            body.report.add(item.place, path, message, "Lists and mappings cannot be searched.")
        elif any(same(option, item.value) for option in options):
            body.report.add(item.place, path, f"{show(item)} is given twice.", "Remove one of the two.")
        else:
            options.append(item.value)
    return Choice(options=tuple(options)) if options else None


def _float(body: Section) -> FloatRange | None:
    ends = _ends(body, "float", whole=False)
    log = body.flag("log")
    entry = body.entry("step")
    step = number_of(entry.node) if entry is not None else None
    if entry is not None and (step is None or step <= 0):
        body.complain("step", f"must be a number above 0, got {show(entry.node)}.")
        return None
    if ends is None or not _log_fits(body, "float", ends, log=log, stepped=step is not None):
        return None
    if step is not None and not _step_fits(body, ends, step):
        return None
    return FloatRange(low=ends[0], high=ends[1], log=log, step=None if step is None else float(step))


def _int(body: Section) -> IntRange | None:
    ends = _ends(body, "int", whole=True)
    log = body.flag("log")
    entry = body.entry("step")
    step = whole_of(entry.node) if entry is not None else 1
    if step is None or step < 1:
        got = show(entry.node) if entry is not None else ""
        body.complain("step", f"must be a whole number of at least 1, got {got}.")
        return None
    if ends is None or not _log_fits(body, "int", ends, log=log, stepped=step != 1):
        return None
    if not _step_fits(body, ends, step):
        return None
    return IntRange(low=int(ends[0]), high=int(ends[1]), log=log, step=step)


def _ends(body: Section, key: str, *, whole: bool) -> Ends | None:
    node = body.table.entries[key].node
    read = whole_of if whole else number_of
    what = "whole numbers" if whole else "numbers"
    ends = [read(item) for item in node.nodes] if isinstance(node, Items) else []
    if len(ends) != 2 or ends[0] is None or ends[1] is None:
        example = "[1, 4]" if whole else "[0.1, 0.3]"
        hint = f"Write for example {key}: {example}"
        fraction = whole and isinstance(node, Items) and all(number_of(item) is not None for item in node.nodes)
        body.complain(
            key,
            f"must be a list of two {what}, got {show(node)}.",
            "For fractions write float instead of int." if fraction and len(ends) == 2 else hint,
        )
        return None
    low, high = ends[0], ends[1]
    if low > high:
        message = f"the range is upside down: {low:g} is above {high:g}."
        body.complain(key, message, f"Write {key}: [{high:g}, {low:g}]")
        return None
    if abs(low) > MAX_NUMBER or abs(high) > MAX_NUMBER:
        body.complain(key, f"must stay between -{MAX_NUMBER:g} and {MAX_NUMBER:g}, got {show(node)}.")
        return None
    return (low, high) if whole else (float(low), float(high))


def _log_fits(body: Section, key: str, ends: Ends, *, log: bool, stepped: bool) -> bool:
    if log and ends[0] <= 0:
        lowest = "1" if key == "int" else "a small number such as 1e-6"
        body.complain(key, f"log: true needs a range above 0, got {ends[0]:g}.", f"Start at {lowest} or remove log.")
        return False
    if log and stepped:
        body.complain("step", "log: true and step exclude each other.", "Remove one of the two, or use choice.")
        return False
    return True


def _step_fits(body: Section, ends: Ends, step: float) -> bool:
    low, high = ends
    count = (high - low) / step
    if count > MAX_STEPS:
        body.complain("step", f"there would be more than {MAX_STEPS:,} steps.", "Remove step or make it larger.")
        return False
    if abs(count - round(count)) < 1e-8:
        return True
    last = low + int(count) * step
    message = f"the step {step:g} does not lead from {low:g} to {high:g}."
    body.complain("step", message, f"End the range at {last:g} or at {last + step:g}, or change the step.")
    return False


def _prior(body: Section, domain: Domain) -> JsonValue:
    entry = body.entry("prior")
    if entry is None:
        return None
    value = entry.node.value if isinstance(entry.node, Scalar) else None
    if not isinstance(domain, Choice):
        value = whole_of(entry.node) if isinstance(domain, IntRange) else number_of(entry.node)
    if value is None or not contains(domain, value):
        message = f"{show(entry.node)} does not lie in the domain: {describe_domain(domain)}."
        body.complain("prior", message, "Widen the domain or change the prior.")
        return None
    return float(value) if isinstance(domain, FloatRange) and isinstance(value, int) else value


def _when(body: Section) -> Expression | None:
    entry = body.entry("when")
    text = body.text("when")
    return read_expression(text, entry.node.place, f"{body.path}.when", body.report) if entry and text else None


def _refuse_circles(found: Mapping[str, Parameter], section: Section) -> None:
    """Complains once about every circle of ``when`` conditions."""
    reads = {path: p.when.names & found.keys() if p.when is not None else frozenset() for path, p in found.items()}
    waiting = list(found)
    while True:
        while ready := [path for path in waiting if not reads[path] & set(waiting)]:
            waiting = [path for path in waiting if path not in ready]
        if not waiting:
            return
        # Whoever still waits reads somebody who still waits, so this walk must come back to where it was.
        walk = [waiting[0]]
        while len(set(walk)) == len(walk):
            walk.append(next(path for path in waiting if path in reads[walk[-1]]))
        circle = walk[walk.index(walk[-1]) :]
        entry = section.table.entries[circle[0]].node
        place = entry.entries["when"].node.place if isinstance(entry, Table) else entry.place
        message = f"`when` conditions refer to each other in a circle: {' -> '.join(circle)}."
        section.report.add(place, join(section.path, f"{circle[0]}.when"), message, "Remove one of the conditions.")
        waiting = [path for path in waiting if path not in circle]
