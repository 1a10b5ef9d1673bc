"""``autotune plan`` and ``autotune spaces``: what would happen, and what ships."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.arguments import SPACE

if TYPE_CHECKING:
    from autotune.views import MemoryView, PlanView


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(plan)
    app.command()(spaces)


def plan(
    space: Annotated[str, SPACE],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Check a space file and say what it would do; nothing is stored."""
    from autotune.cli.connect import connect
    from autotune.cli.files import read_space
    from autotune.cli.output import print_json, warn

    with connect() as connection:
        file = read_space(space, connection.client)
        found = connection.client.plan(file.text, file=file.name)
    if as_json:
        print_json(found)
    else:
        _print_plan(found)
    for warning in found.warnings:
        warn(warning)


def spaces(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """List the space files that ship with autotune."""
    from autotune.cli.connect import connect
    from autotune.cli.output import print_json, table

    with connect() as connection:
        found = connection.client.spaces()
    if as_json:
        print_json({"spaces": found})
    else:
        table(["name", "description", "path"], [[space.name, space.description, space.path] for space in found])


def memory_text(memory: MemoryView) -> str:
    """The estimate in one line: peak, parts, and what there is."""
    parts = ", ".join(f"{name} {size:.2f}" for name, size in list(memory.parts.items())[:5])
    room = f"{memory.room_gib:.1f} GiB" if memory.room_gib is not None else "unknown"
    return f"about {memory.peak_gib:.2f} GiB in the {memory.phase} ({parts}); {memory.room}: {room}"


def _print_plan(plan: PlanView) -> None:
    from autotune.cli.output import data, duration, table, value_text
    from autotune.cli.stages import stage_plan_facts

    if plan.stages:
        facts = [
            ("space", f"{plan.name}: {plan.description}" if plan.description else plan.name),
            ("trainer", f"{plan.backend}, configuration {plan.config}"),
            *stage_plan_facts(plan.stages),
            ("together", f"{plan.trials} trials, at most {plan.max_steps} training steps if none were pruned"),
            ("each trial", f"{plan.cpus_per_trial:g} CPUs, {plan.gpus_per_trial:g} GPUs"),
        ]
        for name, fact in facts:
            data(f"{name + ':' if name else '':13}{fact}")
        return
    clock = f", within {duration(plan.wall_clock_s)}" if plan.wall_clock_s is not None else ""
    has_advisor = bool(plan.advisor_share)
    facts = [
        ("space", f"{plan.name}: {plan.description}" if plan.description else plan.name),
        ("trainer", f"{plan.backend}, configuration {plan.config}"),
        ("objective", ", ".join(f"{one.direction} {one.metric}" for one in plan.objectives or [plan.objective])),
        ("constraints", "; ".join(plan.constraints) or "none"),
        ("sampler", f"{plan.sampler}, seed {plan.seed}"),
        ("pruners", "; ".join(plan.pruners) or "none, every trial runs to its end"),
        *([("advisor", f"advice on finished trials gets up to {plan.advisor_share:.0%} of the trials")] * has_advisor),
        ("budget", f"{plan.trials} trials of {plan.steps} steps, {plan.parallel} at a time{clock}"),
        ("at most", f"{plan.max_steps} training steps, if no trial were pruned"),
        ("each trial", f"{plan.cpus_per_trial:g} CPUs, {plan.gpus_per_trial:g} GPUs"),
        *([] if plan.memory is None else [("memory", memory_text(plan.memory))]),
        *(("require", condition) for condition in plan.require),
    ]
    for name, fact in facts:
        data(f"{name + ':':13}{fact}")
    data()
    rows = [[row.path, row.domain, value_text(row.default), row.when or ""] for row in plan.parameters]
    table(["parameter", "values", "default", "only when"], rows)
    if plan.proposals:
        data()
        data("first configurations:")
        for index, proposal in enumerate(plan.proposals):
            data(f"  {index}: " + " ".join(f"{path}={value_text(value)}" for path, value in proposal.items()))
