"""``autotune db``: look after the study database, on the machine that has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.errors import ConflictError, UsageError

if TYPE_CHECKING:
    from autotune.service import Service

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    db = typer.Typer(no_args_is_help=True, help="Look after the study database, on the machine that has it.")
    db.command("check")(check)
    db.command("backup")(backup)
    db.command("prune")(prune)
    app.add_typer(db, name="db")


def check(
    repair: Annotated[bool, typer.Option("--repair", help="Put right what is found.")] = False,
    mlflow: Annotated[bool, typer.Option(help="Look at MLflow too, which takes longest.")] = True,
    as_json: AsJson = False,
) -> None:
    """Find what does not fit together in the database, Optuna and MLflow; exit code 5 if something is left."""
    from autotune.cli.output import data, print_json, say

    with _service() as service:
        from autotune.service.upkeep import check as look

        found = list(look(service, repair=repair, mlflow=mlflow))
    left = [one for one in found if not one.repaired]
    if as_json:
        print_json({"findings": found, "left": len(left)})
    else:
        for one in found:
            data(f"{one.job}: {one.kind}: {one.text}{f'; repaired: {one.fix}' if one.repaired else ''}")
        if not found:
            say("everything fits together")
    if left:
        hint = "Put it right with: autotune db check --repair" if not repair else "See the log of the service."
        raise ConflictError(f"{len(left)} of {len(found)} findings are left as they are.", hint=hint)


def backup(
    target: Annotated[Path, typer.Argument(help="The new file; it must not exist.")], as_json: AsJson = False
) -> None:
    """Copy the study database into a file while it is in use."""
    from autotune.cli.output import data, print_json

    with _service() as service:
        from autotune.store.backup import back_up

        size = back_up(service.store, target)
    if as_json:
        print_json({"path": target.absolute(), "bytes": size})
    else:
        data(f"{target.absolute()}: {size:,} bytes")


def prune(
    what: Annotated[str, typer.Argument(help="checkpoints, or curves; of all trials but the best.")],
    older: Annotated[str, typer.Option(help="Only of jobs that ended longer ago than this.")] = "30d",
    yes: Annotated[bool, typer.Option("--yes", help="Really take it away; without it only count.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make room: take checkpoints or curves of old jobs away. Trials, values, reasons and costs stay."""
    from autotune.cli.output import data, print_json, say
    from autotune.spec.units import parse_duration

    age = parse_duration(older)
    if age is None:
        raise UsageError(f"--older must be a duration with its unit, got {older!r}.", hint="For example --older 30d")
    with _service() as service:
        from autotune.service.retention import prune as take

        found = list(take(service, age, what, really=yes))
    if as_json:
        print_json({"pruned": found, "really": yes})
        return
    for one in found:
        data(
            f"{one.job}: {one.files} checkpoints, {one.size / 1e9:.2f} GB"
            if one.files
            else f"{one.job}: {one.points} points"
        )
    if not found:
        say(f"no job that ended more than {older} ago has any {what} left to take")
    elif not yes:
        say("nothing was taken away; do it with --yes")


@contextmanager
def _service() -> Iterator[Service]:
    from autotune.cli.connect import connect

    with connect() as connection:
        if connection.embedded is None:
            raise UsageError(
                "the database is looked after where it is, and AUTOTUNE_URL points to a service elsewhere.",
                hint="Run it on the service's machine, without AUTOTUNE_URL and with its AUTOTUNE_DATABASE_URL.",
            )
        yield connection.embedded
