"""``autotune diagnose``: what rules on curves find in a job's trials, and what to try."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.arguments import AsJson, Job
from autotune.cli.completion import complete_stage, complete_trial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune.views import AdviceView, ChangeView


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(diagnose)


def diagnose(
    job: Job,
    trial: Annotated[
        int | None, typer.Argument(min=0, help="Only this trial's curves.", autocompletion=complete_trial)
    ] = None,
    stage: Annotated[
        str | None,
        typer.Option(help="The trials of this stage instead of the current one's.", autocompletion=complete_stage),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look for what goes wrong in the curves of a job's trials, and say what to change."""
    from autotune.cli.connect import connect
    from autotune.cli.output import data, print_json, say

    with connect() as connection:
        found = connection.client.advice(job, trial=trial, stage=stage)
    if as_json:
        print_json({"advice": found})
        return
    if trial is None:
        _summary(found)
    else:
        for advice in found:
            data(f"{advice.rule}: {advice.finding}")
            data(f"  try: {'; '.join(change_text(change) for change in advice.changes) or 'look at it'}")
            data(f"  from: {advice.source}")
    if not found:
        say("nothing stands out in these curves")
    elif trial is None:
        say(f"one trial with its numbers: autotune diagnose {job} TRIAL")


def _summary(found: Sequence[AdviceView]) -> None:
    """A row per rule: in how many trials, and the first of them as an example."""
    from autotune.cli.output import table
    from autotune.reports.advice import HEADERS, advice_rows

    rows = [row[:-1] for row in advice_rows(found)]
    if rows:
        table(list(HEADERS[:-1]), rows)


def change_text(change: ChangeView) -> str:
    """A change in one line."""
    from autotune.cli.output import value_text

    return f"{change.path} {value_text(change.before)} -> {value_text(change.after)}"
