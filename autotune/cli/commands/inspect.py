"""``autotune jobs``, ``show`` and ``watch``: the jobs themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.arguments import AsJson, Job
from autotune.cli.completion import complete_stage, complete_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune.client import Client
    from autotune.views import AdviceView, JobView, TrialView


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for command in (jobs, show, watch):
        app.command()(command)


def jobs(
    state: Annotated[str | None, typer.Option(help="Only jobs in this state.", autocompletion=complete_state)] = None,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of jobs.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the jobs, newest first."""
    from autotune.cli.connect import connect
    from autotune.cli.output import moment, number, print_json, say, table

    with connect() as connection:
        found, more = _jobs(connection.client, state, limit)
    if as_json:
        print_json({"jobs": found, "more": more})
        return
    rows = [
        [
            job.id,
            job.state,
            f"{_ended(job)}/{job.budget_trials}",
            job.objective.metric,
            number(job.best_value),
            number(job.default_value),
            moment(job.created_at),
        ]
        for job in found
    ]
    table(["job", "state", "trials", "objective", "best", "default", "submitted"], rows)
    if more:
        say(f"there are more than {limit}; show them with --limit")
    if not found:
        say("no job yet; start one with: autotune launch quickstart")


def show(
    job: Job,
    stage: Annotated[
        str | None,
        typer.Option(
            help="The trials of this stage instead of those of the one that the job is at.",
            autocompletion=complete_stage,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a job and its trials."""
    from autotune.cli.connect import connect
    from autotune.cli.output import print_json

    with connect() as connection:
        view = connection.client.job(job)
        trials = list(connection.client.all_trials(job, stage=stage))
        advice = [] if as_json else connection.client.advice(job, stage=stage)
    if as_json:
        print_json({"job": view, "trials": trials})
        return
    _print_job(view, trials, stage or view.stage)
    _say_advice(job, advice)


def _say_advice(job: str, found: Sequence[AdviceView]) -> None:
    """What the curves advise, in one line."""
    from collections import Counter

    from autotune.cli.output import say

    counts = Counter(advice.rule for advice in found).most_common(4)
    if counts:
        shown = ", ".join(f"{rule} in {count} trial{'s' if count > 1 else ''}" for rule, count in counts)
        say(f"the curves show: {shown}; what to change: autotune diagnose {job}")


def watch(job: Job, as_json: AsJson = False) -> None:
    """Follow a job that runs elsewhere until it has ended; Ctrl-C only stops watching."""
    from autotune.cli.connect import connect
    from autotune.cli.guard import INTERRUPTED
    from autotune.cli.output import print_json, say, stderr_console
    from autotune.cli.summary import print_summary, summarize
    from autotune.cli.watch import Watch
    from autotune.client import check_succeeded

    with connect() as connection:
        try:
            with Watch(connection.client, job, stderr_console()) as live:
                live.follow()
        except KeyboardInterrupt:
            say(f"detached; the job goes on. Come back: autotune watch {job}   End it: autotune cancel {job}")
            raise typer.Exit(INTERRUPTED) from None
        summary = summarize(connection, job)
    if as_json:
        print_json(summary)
    else:
        print_summary(summary)
    check_succeeded(summary.job)


def _jobs(client: Client, state: str | None, limit: int) -> tuple[list[JobView], bool]:
    found: list[JobView] = []
    cursor: str | None = None
    while True:
        page = client.jobs(state=state, limit=min(500, limit - len(found)), cursor=cursor)
        found += page.items
        cursor = page.next
        if cursor is None or len(found) >= limit:
            return found, cursor is not None


def _ended(job: JobView) -> int:
    from autotune.states import TRIAL_ENDS

    return sum(count for state, count in job.trials.items() if state in TRIAL_ENDS)


def _print_job(job: JobView, trials: list[TrialView], stage: str) -> None:
    from autotune.cli.output import data, duration, moment, number, table
    from autotune.cli.stages import print_stages
    from autotune.cli.summary import advised_text
    from autotune.cli.watch import progress_line, short, why_of

    facts = [
        ("job", f"{job.id} ({job.state})"),
        ("waits for", job.waits),
        ("description", job.description),
        ("objective", ", ".join(f"{one.direction} {one.metric}" for one in job.objectives or [job.objective])),
        ("progress", progress_line(job)),
        ("submitted", moment(job.created_at)),
        ("started", moment(job.started_at)),
        ("ended", moment(job.ended_at)),
        ("advice", advised_text(job.advised)),
        ("cost", f"{duration(job.cost_s)} of trials, {job.cost_gpu_hours:.2f} GPU-hours"),
        ("directory", job.directory),
        ("MLflow run", job.mlflow_run or ""),
    ]
    if job.error is not None:
        facts += [("error", f"{job.error.kind}: {job.error.message}"), ("hint", job.error.hint)]
    for name, fact in facts:
        if fact and fact != "-":
            data(f"{name + ':':13}{fact}")
    data()
    print_stages(job)
    shown = next((one for one in job.stages if one.name == stage), job)
    if not trials:
        data("No trial yet.")
        return
    paths = list(dict.fromkeys(path for trial in trials for path in trial.params))
    rows = [
        [
            f"{trial.number}{'*' if trial.number == shown.best_trial else ''}",
            trial.state,
            trial.source,
            f"{trial.last_step}/{shown.steps}",
            number(trial.value),
            number(trial.metrics.get("kl/actor_ref")),
            duration(trial.cost_s),
            *(_cell(trial, path) for path in paths),
            why_of(trial),
        ]
        for trial in trials
    ]
    headers = ["trial", "state", "source", "step", shown.objective.metric, "kl/actor_ref", "cost"]
    table([*headers, *map(short, paths), "why"], rows)


def _cell(trial: TrialView, path: str) -> str:
    from autotune.cli.output import value_text

    return value_text(trial.params[path]) if path in trial.params else "-"
