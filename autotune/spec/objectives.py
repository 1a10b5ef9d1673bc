"""Reads ``objective``, or ``objectives`` where there are several."""

from __future__ import annotations

import dataclasses

from autotune.spec import known
from autotune.spec.bounds import COUNT
from autotune.spec.nodes import Table
from autotune.spec.reader import Section, show
from autotune.spec.types import Direction, Objective, Reduce

MAX_OBJECTIVES = 4
"""With more, nearly every trial is on the front."""
_EXAMPLE = "[{metric: eval/reward}, {metric: response/length_mean, direction: minimize}]"


def read_objective(top: Section) -> Objective:
    """What is good; of several the first, with the others in its ``also``."""
    several = top.entry("objectives")
    if several is None:
        section = top.section("objective", known.OBJECTIVE)
        if section is None and top.entry("objective") is None:
            top.missing("objective", "Write for example objective: {metric: eval/reward, direction: maximize}")
        return Objective(metric="") if section is None else _one(section)
    if top.entry("objective") is not None:
        hint = "Keep one; objective: null takes away what `extends` brought."
        top.report.add(several.place, "objectives", "`objective` and `objectives` are both given.", hint)
    found: list[Objective] = []
    for path, node in top.items("objectives", _EXAMPLE):
        if not isinstance(node, Table):
            top.report.add(node.place, path, f"must be a mapping, got {show(node)}.", f"Write for example {_EXAMPLE}")
            continue
        one = _one(Section(node, path, top.report, known.OBJECTIVE))
        if one.metric and any(one.metric == other.metric for other in found):
            message = f"{one.metric!r} is an objective already."
            top.report.add(node.place, path, message, "Name each metric once.")
        else:
            found.append(one)
    if len(found) > MAX_OBJECTIVES:
        message = f"there are {len(found)} objectives, at most {MAX_OBJECTIVES} are allowed."
        top.complain("objectives", message, "Turn what must only be good enough into a constraint.")
    if not found:
        top.complain("objectives", "there is no objective.", f"Write for example objectives: {_EXAMPLE}")
        return Objective(metric="")
    return dataclasses.replace(found[0], also=tuple(found[1:]))


def _one(section: Section) -> Objective:
    metric = section.text("metric")
    if section.entry("metric") is None:
        section.missing("metric", "Write for example metric: eval/reward")
    return Objective(
        metric=metric,
        direction=Direction(section.one_of("direction", "maximize", [*Direction], "direction")),
        reduce=Reduce(section.one_of("reduce", "last", [*Reduce], "reduction")),
        smooth=section.whole("smooth", 1, COUNT),
    )
