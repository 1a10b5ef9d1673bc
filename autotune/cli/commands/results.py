"""``autotune best``, ``export``, ``logs`` and ``report``: what a job has found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.arguments import AsJson, Job
from autotune.cli.completion import FORMS, complete_form, complete_stage, complete_target, complete_trial
from autotune.errors import NotAllowedError, UsageError

if TYPE_CHECKING:
    from autotune.cli.connect import Connection
    from autotune.client import Client
    from autotune.clock import Clock
    from autotune.views import BestView

_FOLLOWED = 2000


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for command in (best, export, logs, report):
        app.command()(command)
    app.command("register")(register_model)


def best(
    job: Job,
    overrides: Annotated[
        bool, typer.Option("--overrides", help="Only the Hydra overrides, one a line, ready to paste.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the best configuration of a job with its evidence."""
    from autotune.cli.connect import connect
    from autotune.cli.output import data, print_json

    with connect() as connection:
        found = connection.client.best(job)
    if as_json:
        print_json({"overrides": found.overrides} if overrides else found)
    elif overrides:
        for line in found.overrides:
            data(line)
    else:
        _print_best(found)


def export(
    job: Job,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="native or verl (a launch command), yaml (the whole configuration), or command.",
            autocompletion=complete_target,
        ),
    ] = "native",
    trial: Annotated[
        int | None, typer.Option(min=0, help="This trial instead of the best one.", autocompletion=complete_trial)
    ] = None,
    stage: Annotated[
        str | None,
        typer.Option(help="Name of the trial's stage; else the one the job is at.", autocompletion=complete_stage),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write it to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the best configuration, or a trial's, as a launch command or as YAML."""
    from autotune.cli.connect import connect
    from autotune.cli.output import data, print_json, warn

    with connect() as connection:
        found = connection.client.export(job, to=to, trial=trial, stage=stage)
    if output is not None:
        write_text(output, found.text)
    if as_json:
        print_json(found)
        return
    data(found.text.rstrip("\n") if output is None else str(output.absolute()))
    for note in found.notes:
        warn(note)


def register_model(
    job: Job,
    name: Annotated[str | None, typer.Option(help="Name of the registered model instead of the job's.")] = None,
    as_json: AsJson = False,
) -> None:
    """Register the best checkpoint as a model version in MLflow, with the report."""
    from autotune.cli.connect import connect
    from autotune.cli.output import data, print_json, say

    with connect() as connection:
        found = connection.client.register(job, name=name)
    if as_json:
        print_json(found)
        return
    data(f"models:/{found.name}/{found.version}")
    kept = "" if found.created else ", registered before"
    say(f"trial {found.trial} after step {found.step}{kept}; look at it with: autotune up")


def logs(
    job: Job,
    trial: Annotated[
        int | None, typer.Option(min=0, help="A trial's log instead of the job's.", autocompletion=complete_trial)
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on printing until the job has ended.")] = False,
    tail: Annotated[int, typer.Option(min=1, help="Number of lines from the end.")] = 200,
    stage: Annotated[
        str | None, typer.Option(help="With --trial: the trial of this stage.", autocompletion=complete_stage)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the end of a job's or a trial's log."""
    if follow and as_json:
        raise UsageError("--follow prints as it goes and --json prints one document; choose one.")
    from autotune.cli.connect import connect
    from autotune.cli.output import print_json

    with connect() as connection:
        if follow:
            follow_log(connection.client, job, trial, tail, stage=stage)
            return
        text = connection.client.logs(job, trial=trial, tail=tail, stage=stage)
    if as_json:
        print_json({"job": job, "trial": trial, "log": text})
    else:
        _write(text.splitlines())


def report(
    job: Job,
    form: Annotated[
        str, typer.Option("--format", help="html, markdown or json.", autocompletion=complete_form)
    ] = "html",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the report to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a job's report, one file that needs nothing else, and say where it is."""
    from autotune.cli.connect import connect
    from autotune.cli.output import data, print_json

    with connect() as connection:
        path = _report(connection, job, form, output)
    if as_json:
        print_json({"job": job, "path": path})
    else:
        data(str(path))


def follow_log(
    client: Client,
    job: str,
    trial: int | None,
    tail: int,
    *,
    stage: str | None = None,
    poll: float = 1.0,
    clock: Clock | None = None,
) -> None:
    """Prints a log and what is added to it until the job has ended."""
    from autotune.clock import SystemClock
    from autotune.states import JOB_ENDS

    clock = clock or SystemClock()
    seen: list[str] = []
    while True:
        # Asked before the log is read: a job that has ended by now adds nothing after it.
        ended = client.job(job).state in JOB_ENDS
        lines = client.logs(job, trial=trial, tail=max(tail, _FOLLOWED), stage=stage).splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n") and not ended:
            lines.pop()
        fresh = added(seen, lines) if seen else lines[-tail:]
        _write([line.rstrip("\n") for line in fresh])
        seen = lines or seen
        if ended:
            return
        clock.sleep(poll)


def added(before: list[str], now: list[str]) -> list[str]:
    """The lines of ``now`` that follow the longest end of ``before`` that ``now`` begins with."""
    for overlap in range(min(len(before), len(now)), 0, -1):
        if before[-overlap:] == now[:overlap]:
            return now[overlap:]
    return now


def _write(lines: list[str]) -> None:
    from autotune.cli.output import data

    for line in lines:
        data(line)
    sys.stdout.flush()


def _report(connection: Connection, job: str, form: str, output: Path | None) -> Path:
    if form not in FORMS:
        raise UsageError(f"--format: got {form!r}, allowed are {', '.join(FORMS)}.")
    text = connection.client.report(job, form=form)
    if output is None:
        if connection.embedded is not None:
            return Path(connection.client.job(job).directory) / f"report{FORMS[form]}"
        output = Path(f"{job}-report{FORMS[form]}")
    write_text(output, text)
    return output.absolute()


def write_text(output: Path, text: str) -> None:
    """Writes a file that a person named.

    Raises:
        NotAllowedError: If it cannot be written.
    """
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise NotAllowedError(
            f"{output} cannot be written: {error.strerror}.", hint="Choose another file with --output."
        ) from error


def _print_front(found: BestView) -> None:
    """The trials that nobody beats in everything, each with all its objectives."""
    from autotune.cli.output import data, number, table

    goals = [f"{one.metric} ({one.direction})" for one in found.objectives]
    data(
        f"front: {len(found.front)} trials that no other beats in everything; trial {found.trial.number} is shown here"
    )
    rows = [
        [str(one.number), *(number(one.values.get(goal.metric), 6) for goal in found.objectives)] for one in found.front
    ]
    table(["trial", *goals], rows)


def _print_best(found: BestView) -> None:
    from autotune.cli.output import data, number, table, value_text

    data(f"job {found.job}: trial {found.trial.number} after {found.trial.last_step} steps")
    data(f"{found.objective.metric}: {number(found.trial.value, 6)} ({found.objective.direction})")
    if found.default is not None:
        gain = f", improvement {number(found.improvement)}" if found.improvement is not None else ""
        data(f"default: {number(found.default.value, 6)} (trial {found.default.number}{gain})")
    if found.finding:
        data(f"finalists: {found.finding}")
    if found.front:
        _print_front(found)
    for constraint, violation in found.trial.violations.items():
        data(f"constraint {constraint}: {'holds' if violation <= 0 else 'broken'} by {number(abs(violation))}")
    data()
    defaults = found.default.params if found.default is not None else {}
    rows = [
        [path, value_text(value), value_text(defaults[path]) if path in defaults else "-"]
        for path, value in found.trial.params.items()
    ]
    table(["parameter", "best", "default"], rows)
    data()
    if found.checkpoint:
        data(f"checkpoint: {found.checkpoint}")
    data(f"train it again: {found.command}")
