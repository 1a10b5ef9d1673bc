"""Reads ``advisor``: whether a job follows the advice on its own trials."""

from __future__ import annotations

from autotune.spec import known
from autotune.spec.bounds import Bounds
from autotune.spec.nodes import Scalar
from autotune.spec.reader import Section, show
from autotune.spec.types import AdvisorSpec, Population

SHARE = Bounds(above=0, high=1)
_EXAMPLE = "Write for example advisor: enqueue, or advisor: {enqueue: {share: 0.25}}"


def read_advisor(section: Section, population: Population | None) -> AdvisorSpec | None:
    """How advice is followed; ``None`` where the file wants none, and complaints about what does not go with it."""
    entry = section.entry("advisor")
    if entry is None:
        return None
    if population is not None:
        message = "the members of a population change their values while they run; a trial from advice would not."
        section.complain("advisor", message, "Remove `advisor` or `strategy`.")
    if isinstance(entry.node, Scalar):
        if entry.node.value not in known.ADVISORS:
            message = f"{show(entry.node)} is not something to do with advice; known is {', '.join(known.ADVISORS)}."
            section.complain("advisor", message, _EXAMPLE)
        return AdvisorSpec()
    outer = section.section("advisor", known.ADVISORS)
    if outer is None:
        return None
    if outer.entry("enqueue") is None:
        section.complain("advisor", "must say what to do with advice.", _EXAMPLE)
        return AdvisorSpec()
    inner, default = outer.section("enqueue", known.ADVISOR), AdvisorSpec()
    return default if inner is None else AdvisorSpec(share=float(inner.number("share", default.share, SHARE)))
