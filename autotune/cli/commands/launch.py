"""``autotune launch``: submits a space and stays with it until it has ended."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.arguments import SPACE
from autotune.cli.completion import complete_job
from autotune.errors import UsageError
from autotune.states import JobState

if TYPE_CHECKING:
    from autotune.cli.connect import Connection
    from autotune.cli.watch import Watch
    from autotune.service import Drivers


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(launch)


def launch(
    space: Annotated[str | None, SPACE] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="JOB",
            help="Go on with this job instead of starting one.",
            autocompletion=complete_job,
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the job instead of the file's.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the sampler instead of the file's.")] = None,
    trials: Annotated[int | None, typer.Option(help="Number of trials instead of the file's.")] = None,
    parallel: Annotated[int | None, typer.Option(help="Trials at a time instead of the file's.")] = None,
    no_watch: Annotated[
        bool, typer.Option("--no-watch", "-d", help="Return at once; only for a service at AUTOTUNE_URL.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Run a search: in the foreground, or by the service at AUTOTUNE_URL.

    Ctrl-C in the foreground stops the search gracefully; it goes on with --resume. Ctrl-C with a service only stops
    watching.
    """
    changes = {"name": name, "sampler.seed": seed, "budget.trials": trials, "budget.parallel": parallel}
    if (space is None) == (resume is None):
        raise UsageError(
            "launch needs a space file or --resume JOB, and not both.", hint="For example: autotune launch quickstart"
        )
    if resume is not None and any(value is not None for value in changes.values()):
        raise UsageError(
            "a job that goes on keeps its name, seed, trials and parallel; these options are for a new one.",
            hint=f"Use: autotune launch --resume {resume}",
        )
    from autotune.cli.connect import connect

    with connect() as connection:
        if no_watch and connection.embedded is not None:
            raise UsageError(
                "--no-watch needs a service that goes on without this command; AUTOTUNE_URL is not set.",
                hint="Start one with `autotune serve` and set AUTOTUNE_URL=http://127.0.0.1:8765",
            )
        with _driver_ahead(connection) as starts:
            job = _start(connection, space, resume, changes)
            if no_watch:
                _print_started(connection, job, as_json=as_json)
            else:
                _stay(connection, job, starts, as_json=as_json)


@contextlib.contextmanager
def _driver_ahead(connection: Connection) -> Iterator[Drivers | None]:
    """Lets a driver of our own import what it needs while the space is read and checked."""
    if connection.embedded is None:
        yield None
        return
    from autotune.service import Drivers

    starts = Drivers(ahead=connection.settings.warm_s > 0)
    starts.get_ready()
    try:
        yield starts
    finally:
        starts.end()


def _start(connection: Connection, space: str | None, resume: str | None, changes: dict[str, str | int | None]) -> str:
    from autotune.cli.adjust import adjust
    from autotune.cli.files import read_space
    from autotune.cli.output import say

    if space is None:
        assert resume is not None
        job = connection.client.resume(resume)
        say(f"job {job.id} goes on: {job.directory}")
        return job.id
    file = read_space(space, connection.client)
    text = adjust(file.text, changes)
    job = connection.client.submit(text, file=file.name, idempotency_key=str(uuid.uuid4()))
    say(f"job {job.id} submitted: {job.budget_trials} trials, {job.parallel} at a time, in {job.directory}")
    return job.id


def _print_started(connection: Connection, job: str, *, as_json: bool) -> None:
    from autotune.cli.output import data, print_json, say

    if as_json:
        print_json(connection.client.job(job))
    else:
        data(job)
    say(f"watch it with: autotune watch {job}")


def _stay(connection: Connection, job: str, starts: Drivers | None, *, as_json: bool) -> None:
    from autotune.cli.guard import INTERRUPTED
    from autotune.cli.output import print_json, say, stderr_console
    from autotune.cli.summary import print_summary, summarize
    from autotune.cli.watch import Watch
    from autotune.client import check_succeeded

    try:
        with Watch(connection.client, job, stderr_console()) as watch:
            _run(connection, job, watch, starts)
    except KeyboardInterrupt:
        if connection.embedded is None:
            say(f"detached; the job goes on. Come back: autotune watch {job}   End it: autotune cancel {job}")
        else:
            say("stopped; finished trials are kept, the others go on from their last checkpoint.")
            say(f"Go on: autotune launch --resume {job}   Look at it: autotune show {job}")
        raise typer.Exit(INTERRUPTED) from None
    summary = summarize(connection, job)
    if as_json:
        print_json(summary)
    else:
        print_summary(summary)
    if summary.job.state == JobState.PAUSED:
        say(f"paused; nothing runs any more. Go on: autotune launch --resume {job}")
        return
    check_succeeded(summary.job)


def _run(connection: Connection, job: str, watch: Watch, starts: Drivers | None) -> None:
    if connection.embedded is None:
        watch.follow()
        return
    from autotune.service import run_embedded

    run_embedded(connection.embedded, connection.settings, job, watch.tick, starts)
    watch.refresh()
