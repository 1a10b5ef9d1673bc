"""Builds a ``Space`` from a document in which ``extends`` is resolved and every path is written in full."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import cast

from autotune.spec import known
from autotune.spec.advisor import read_advisor
from autotune.spec.expressions import Expression
from autotune.spec.nodes import Place, Scalar, Table, join, places, plain
from autotune.spec.objectives import read_objective
from autotune.spec.parameters import read_expression, read_search
from autotune.spec.prune import read_prune
from autotune.spec.reader import Report, Section, show
from autotune.spec.sections import (
    read_budget,
    read_constraints,
    read_finalists,
    read_name,
    read_resources,
    read_retry,
    read_sampler,
)
from autotune.spec.stages import Shared, read_stage, stage_tables
from autotune.spec.starts import read_starts, read_warm_starts
from autotune.spec.strategy import read_strategy, refuse_beside_stages
from autotune.spec.trainer import read_trainer, with_places
from autotune.spec.types import Parameter, Space, Stage
from autotune.spec.values import JsonValue


def build_space(table: Table, report: Report) -> Space:
    """The space that a document describes; what is wrong with it is noted in the report."""
    top = Section(table, "", report, known.TOP)
    shared = Shared(
        name=read_name(top),
        description=top.text("description"),
        trainer=read_trainer(top),
        resources=read_resources(top),
        sampler=read_sampler(top),
        retry=read_retry(top),
    )
    marks = {"": table.place, **dict(places(table))}
    document = with_places(cast("Mapping[str, JsonValue]", plain(table)), shared.trainer)
    if top.entry("stages") is None:
        return dataclasses.replace(_plain(top, shared, marks), document=document)
    refuse_beside_stages(top)
    stages: list[Stage] = []
    for path, stage_table in stage_tables(top):
        section = Section(stage_table, path, report, known.STAGES)
        own = Shared.of_stage(section, shared)
        own_marks = {**marks, "": stage_table.place, **dict(places(stage_table))}
        space = _plain(section, own, own_marks, before=stages[-1].space if stages else None)
        stages.append(read_stage(section, space, stages))
    if not stages:
        return dataclasses.replace(_plain(top, shared, marks, quiet=True), document=document)
    return dataclasses.replace(
        stages[-1].space, description=shared.description, stages=tuple(stages), document=document, marks=marks
    )


def _plain(
    section: Section, shared: Shared, marks: Mapping[str, Place], *, before: Space | None = None, quiet: bool = False
) -> Space:
    """A space without stages, or that of one stage.

    Args:
        section: Where its own keys are.
        shared: What it has in common with other stages.
        marks: Where things stand.
        before: The space of the stage before, whose parameters are searched again if this one names none.
        quiet: Something worse was said already: complain about nothing that is missing.
    """
    section.report.partial = section.report.partial or quiet
    search = _search(section, before)
    objective = read_objective(section)
    if objective.also and shared.sampler.name in known.ONE_OBJECTIVE:
        message = f"the sampler {shared.sampler.name!r} knows one objective, here are {len(objective.each)}."
        section.complain("objectives", message, "Write sampler: {name: nsga2}, or tpe.")
    budget = read_budget(section, shared.resources)
    starts = read_starts(section, search)
    if len(starts) > budget.trials and not _complained(section, "budget.trials"):
        message = f"{len(starts)} configurations do not fit into a budget of {budget.trials} trials."
        section.complain("start_from", message, "Raise budget.trials or remove some.")
    trainer = dataclasses.replace(shared.trainer, searched=tuple(search))
    _refuse_fixed(section, search)
    prune, finalists = read_prune(section, objective.metric), read_finalists(section)
    population = None if section.path else read_strategy(section, budget, objective, prune, finalists)
    return Space(
        name=shared.name,
        description=shared.description,
        trainer=trainer,
        resources=shared.resources,
        search=search,
        require=_require(section),
        objective=objective,
        constraints=read_constraints(section),
        sampler=shared.sampler,
        prune=prune,
        budget=budget,
        retry=shared.retry,
        start_from=starts,
        warm_starts=read_warm_starts(section, search),
        finalists=finalists,
        population=population,
        advisor=read_advisor(section, population),
        marks=marks,
    )


def _refuse_fixed(section: Section, search: Mapping[str, Parameter]) -> None:
    """Complains where a parameter is fixed and searched in the same breath; a stage may search what the job fixes."""
    trainer = section.entry("trainer")
    overrides = trainer.node.entries.get("overrides") if trainer and isinstance(trainer.node, Table) else None
    if overrides is None or not isinstance(overrides.node, Table):
        return
    for path, entry in overrides.node.entries.items():
        if path in search:
            inner = join(section.path, f"trainer.overrides.{path}")
            message = f"{path!r} is searched too, so it cannot have a fixed value."
            section.report.add(entry.place, inner, message, "Remove it here or under search.")


def _complained(section: Section, key: str) -> bool:
    paths: Collection[str] = {problem.path for problem in section.report.problems}
    return join(section.path, key) in paths


def _search(section: Section, before: Space | None) -> Mapping[str, Parameter]:
    entry = section.entry("search")
    hint = "Write for example search: {lr: {float: [1e-6, 1e-5], log: true}}"
    if entry is None and before is not None:
        return before.search
    if entry is None and section.report.partial:
        return {}
    if entry is None or (isinstance(entry.node, Table) and not entry.node.entries):
        section.complain("search", "there is nothing to search: the section is missing or empty.", hint)
        return {}
    if not isinstance(entry.node, Table):
        section.complain("search", f"must be a mapping of parameters, got {show(entry.node)}.", hint)
        return {}
    return read_search(Section(entry.node, join(section.path, "search"), section.report, entry.node.entries))


def _require(section: Section) -> tuple[Expression, ...]:
    found: list[Expression] = []
    for path, node in section.items("require", "[train_batch_size % mini_batch_size == 0]"):
        if isinstance(node, Scalar) and isinstance(node.value, str):
            expression = read_expression(node.value, node.place, path, section.report)
            found += [] if expression is None else [expression]
        else:
            message = f"must be a condition, got {show(node)}."
            section.report.add(node.place, path, message, 'Write for example "ppo_epochs <= 4"')
    return tuple(found)
