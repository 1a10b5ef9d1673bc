"""``autotune import-verl``: a space file from the script that starts verl today."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("import-verl")(import_verl)


def import_verl(
    script: Annotated[str, typer.Argument(help="A launch script of verl, or - for stdin. It is read, never run.")],
    name: Annotated[str, typer.Option("--name", help="Name of the space; the script's if not given.")] = "",
    python: Annotated[str, typer.Option("--python", help="Interpreter of verl's environment.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Make a space file of a script that starts verl; it goes to stdout."""
    from autotune.backends.verl.importing import import_script
    from autotune.cli.output import data, print_json, warn

    slug = re.sub(r"[^a-z0-9_-]+", "-", (name or Path(script).stem).lower()).strip("-_")[:63].strip("-_")
    made = import_script(_read(script), name=slug or "verl", python=python)
    if as_json:
        print_json({"space": made.text, "notes": list(made.notes)})
    else:
        data(made.text.rstrip("\n"))
    for note in made.notes:
        warn(note)


def _read(script: str) -> str:
    from autotune.errors import NotAllowedError, NotFoundError

    if script == "-":
        return sys.stdin.read()
    try:
        return Path(script).expanduser().read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no file {script!r}.", hint="Name the script that starts verl.") from error
    except OSError as error:
        raise NotAllowedError(
            f"{script} cannot be read: {error.strerror}.", hint="Name a file you may read."
        ) from error
