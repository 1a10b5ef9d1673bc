"""The entry point of the ``autotune`` command."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from autotune import __version__
from autotune.cli.commands import (
    access,
    db,
    diagnose,
    doctor,
    import_verl,
    init,
    inspect,
    launch,
    plan,
    results,
    serve,
    steer,
    up,
)
from autotune.cli.guard import GuardedGroup

app = typer.Typer(
    cls=GuardedGroup,
    name="autotune",
    help="Hyperparameter search for the RL post-training of language models.",
    epilog="Start with: autotune launch quickstart, then autotune init for a search of your own",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (init, launch, plan, inspect, steer, results, diagnose, import_verl, serve, up, access, db, doctor):
    module.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"autotune {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[  # noqa: ARG001 - its callback acts
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks and logs on stderr (also AUTOTUNE_DEBUG=1).")
    ] = False,
) -> None:
    """Hyperparameter search for the RL post-training of language models."""
    if debug:
        os.environ["AUTOTUNE_DEBUG"] = "1"


def main() -> None:
    """Runs the command line; ends the process with the exit code."""
    app()


if __name__ == "__main__":
    main()
