"""The stages of a job in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from autotune.cli.output import data, duration, number, table
from autotune.states import TRIAL_ENDS
from autotune.views import CheckView, JobView, StagePlanView, StageView


def print_stages(job: JobView) -> None:
    """One line for each stage, and below them what each winner had to reach; nothing for a job without stages."""
    if not job.stages:
        return
    rows = [
        [
            f"{place}: {stage.name}",
            stage.state,
            f"{_ended(stage)}/{stage.budget_trials}",
            stage.objective.metric,
            "-" if stage.best_trial is None else str(stage.best_trial),
            number(stage.best_value),
            duration(stage.cost_s),
        ]
        for place, stage in enumerate(job.stages, 1)
    ]
    table(["stage", "state", "trials", "objective", "winner", "value", "cost"], rows)
    for stage in job.stages:
        for line in criterion_lines(stage):
            data(f"  {stage.name}: {line}")
    data()


def criterion_lines(stage: StageView) -> list[str]:
    """What the winner of a stage must reach, with its numbers once they are known."""
    if stage.checks:
        return [check_line(check) for check in stage.checks]
    return [f"must reach {text}" for text in stage.criteria]


def check_line(check: CheckView) -> str:
    """One criterion and what it came to."""
    # On the wire a number that is missing and one that is not finite look the same.
    numbers = ", ".join(
        f"{name} = {'not measured' if value is None or isnan(value) else number(value)}"
        for name, value in check.numbers.items()
    )
    return f"{check.text} {'holds' if check.holds else 'does not hold'} ({numbers})"


def stage_plan_facts(stages: Sequence[StagePlanView]) -> list[tuple[str, str]]:
    """What each stage would do, as lines of a plan."""
    facts = []
    for place, stage in enumerate(stages, 1):
        plan = stage.plan
        facts += [
            (f"stage {place}", f"{stage.name}: {plan.trials} trials of {plan.steps} steps, {plan.parallel} at a time"),
            ("", f"{plan.objective.direction} {plan.objective.metric}, sampler {plan.sampler}"),
        ]
        facts += [("", f"searches {row.path}: {row.domain}") for row in plan.parameters]
        facts += [("", f"must reach {text}, else it {_else(stage.on_fail)}") for text in stage.criteria]
        if stage.carry:
            facts.append(("", f"then {stage.carry}"))
    return facts


def _else(on_fail: str) -> str:
    return "goes on all the same" if on_fail == "continue" else "fails"


def _ended(stage: StageView) -> int:
    return sum(count for state, count in stage.trials.items() if state in TRIAL_ENDS)
