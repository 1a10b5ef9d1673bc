"""``autotune pause``, ``resume``, ``stop``, ``cancel``, ``edit`` and ``enqueue``: what a person does to a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.arguments import AsJson, Job
from autotune.cli.completion import complete_stage
from autotune.errors import UsageError
from autotune.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable

    from autotune.cli.connect import Connection
    from autotune.spec.values import JsonValue
    from autotune.views import JobView


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for command in (pause, resume, stop, cancel, edit, enqueue):
        app.command()(command)


def pause(job: Job, as_json: AsJson = False) -> None:
    """Start no new trials for now; the running ones go on."""
    _act(lambda connection: connection.client.pause(job), as_json=as_json)


def resume(job: Job, as_json: AsJson = False) -> None:
    """Go on with a job that was paused, interrupted, failed or cancelled."""
    _act(lambda connection: connection.client.resume(job), as_json=as_json)


def stop(job: Job, as_json: AsJson = False) -> None:
    """Start no new trials, let the running ones finish, and complete the job with what there is."""
    _act(lambda connection: connection.client.stop(job), as_json=as_json)


def cancel(job: Job, as_json: AsJson = False) -> None:
    """End a job's running trials now; they write a checkpoint first."""
    _act(lambda connection: connection.client.cancel(job), as_json=as_json)


def edit(
    job: Job,
    trials: Annotated[int | None, typer.Option(help="Number of trials.")] = None,
    parallel: Annotated[int | None, typer.Option(help="Trials at a time.")] = None,
    gpu_hours: Annotated[float | None, typer.Option(help="GPUs times hours.")] = None,
    wall_clock: Annotated[str | None, typer.Option(help="A duration, for example 24h.")] = None,
    priority: Annotated[int | None, typer.Option(help="Jobs with a higher one are started first.")] = None,
    search: Annotated[
        Path | None,
        typer.Option(help="A YAML file of parameter: domain (null = no longer); for a job at rest."),
    ] = None,
    stage: Annotated[
        str | None, typer.Option(help="The stage whose search is meant.", autocompletion=complete_stage)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change what a job may spend, its place in the queue, or what it searches.

    A running job takes a budget at once; its search can be changed while it is paused, failed or cancelled.
    """
    changes = {"trials": trials, "parallel": parallel, "gpu_hours": gpu_hours, "wall_clock": wall_clock}
    budget = {name: value for name, value in changes.items() if value is not None}
    domains = None if search is None else _domains(search)
    _act(
        lambda connection: connection.client.edit(
            job, priority=priority, budget=budget or None, search=domains, stage=stage
        ),
        as_json=as_json,
    )


def enqueue(
    job: Job,
    params: Annotated[list[str], typer.Argument(help="name=value, by full path or short name; `default` for none.")],
    as_json: AsJson = False,
) -> None:
    """Let a job try a configuration next: autotune enqueue quickstart-1 lr=1e-4 kl_coef=0.01."""
    from autotune.cli.connect import connect
    from autotune.cli.output import data, print_json

    wanted = {} if params == ["default"] else dict(map(_pair, params))
    with connect() as connection:
        event = connection.client.enqueue(job, wanted)
    if as_json:
        print_json(event)
    else:
        data(event.text)


def _act(use: Callable[[Connection], JobView], *, as_json: bool) -> None:
    from autotune.cli.connect import connect
    from autotune.cli.output import data, print_json, say

    with connect() as connection:
        view = use(connection)
        embedded = connection.embedded is not None
    if as_json:
        print_json(view)
    else:
        data(f"job {view.id} is {view.state}")
    if embedded and view.state == JobState.QUEUED:
        say(f"nothing runs it yet: autotune launch --resume {view.id}")


def _domains(path: Path) -> dict[str, JsonValue]:
    import yaml

    from autotune.errors import NotFoundError

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no YAML: {error}") from error
    # The `search:` of a space file, or what stands below it.
    inner = found.get("search", found) if isinstance(found, dict) else found
    if not isinstance(inner, dict) or not inner:
        raise UsageError(f"{path} holds no parameters.", hint="Write for example: lr: {float: [1e-7, 1e-5], log: true}")
    return {str(name): domain for name, domain in inner.items()}


def _pair(text: str) -> tuple[str, JsonValue]:
    import yaml

    name, sign, written = text.partition("=")
    if not sign or not name.strip():
        raise UsageError(f"{text!r} is no parameter.", hint="Write name=value, for example lr=1e-4")
    try:
        value: JsonValue = yaml.safe_load(written)
    except yaml.YAMLError:
        value = written
    # YAML 1.1 takes 1e-4 for a text; a person means the number.
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return name.strip(), value
    return name.strip(), value
