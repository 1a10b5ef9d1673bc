"""``autotune doctor``: whether this machine, its packages and its places are fit for a search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.completion import complete_space

if TYPE_CHECKING:
    from autotune.cli.connect import Connection
    from autotune.preflight import Check

_STYLE = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(doctor)


def doctor(
    space: Annotated[
        str | None,
        typer.Argument(help="Look at this space too: a file, -, or a shipped space.", autocompletion=complete_space),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port that the service would use.")] = 8765,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Check Python, packages, machine, home directory, databases and service, and a space; exit 0 unless one fails."""
    from autotune.cli.output import print_json, say
    from autotune.preflight import CLIENT_CHECKS, Context, Status, run_checks
    from autotune.settings import load_settings

    settings = load_settings()
    context = Context(settings=settings, port=port)
    checks = run_checks(context, CLIENT_CHECKS) if settings.url else run_checks(context)
    failed = [check for check in checks if check.status == Status.FAIL]
    if settings.url or not failed:
        checks += _service(space)
    failed = [check for check in checks if check.status == Status.FAIL]
    if as_json:
        print_json({"ok": not failed, "checks": checks})
    else:
        _print(checks)
        warnings = sum(check.status == Status.WARN for check in checks)
        say(f"{len(failed)} failed, {warnings} warnings, {len(checks)} checks" if failed else "ready")
    if failed:
        raise typer.Exit(failed[0].exit_code)


def _service(space: str | None) -> list[Check]:
    """What the service says of itself, the one at ``AUTOTUNE_URL`` or the one inside this process; and of a space."""
    from autotune.cli.connect import connect
    from autotune.errors import AutotuneError
    from autotune.preflight import Check, Status

    try:
        with connect() as connection:
            where = "embedded" if connection.embedded is not None else connection.client.base_url
            components = connection.client.ready()
            about = [] if space is None else _space(connection, space)
    except AutotuneError as error:
        parts = [
            Check(name=problem.path or "service", status=Status.FAIL, text=problem.message, exit_code=error.exit_code)
            for problem in error.problems
        ]
        alone = Check(name="service", status=Status.FAIL, text=error.message, fix=error.hint, exit_code=error.exit_code)
        return parts or [alone]
    text = ", ".join(f"{name} ok" for name in components) or "answers"
    return [Check(name="service", status=Status.OK, text=f"{where}: {text}"), *about]


def _space(connection: Connection, given: str) -> list[Check]:
    """What can be said of a space where trials run, or, of one for a service elsewhere, from its plan."""
    from autotune.cli.files import read_space
    from autotune.errors import AutotuneError
    from autotune.preflight import Check, Status

    try:
        file = read_space(given, connection.client)
        if connection.embedded is not None:
            return connection.embedded.examine(file.text, file.name)
        plan = connection.client.plan(file.text, file=file.name)
    except AutotuneError as error:
        texts = [str(problem) for problem in error.problems] or [error.message]
        fix = "" if error.problems else error.hint
        return [Check(name="space", status=Status.FAIL, text=one, fix=fix, exit_code=error.exit_code) for one in texts]
    text = f"{plan.name}: {plan.trials} trials of {plan.steps} steps; its files and GPUs are the service's to look at"
    warnings = [Check(name="space", status=Status.WARN, text=warning) for warning in plan.warnings]
    return [Check(name="space", status=Status.OK, text=text), *warnings]


def _print(checks: list[Check]) -> None:
    import sys

    from autotune.cli.output import table

    rows = [[check.name, str(check.status), check.text, check.fix] for check in checks]
    if not sys.stdout.isatty():
        table(["check", "status", "found", "fix"], rows)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    width = max(len(check.name) for check in checks)
    for check in checks:
        line = Text.assemble(f"{check.name:{width}}  ", (f"{check.status:4}", _STYLE[check.status]), f"  {check.text}")
        console.print(line)
        if check.fix:
            console.print(Text(f"{'':{width}}        fix: {check.fix}", style="dim"))
