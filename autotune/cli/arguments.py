"""Arguments that many commands share, and what a shell completes them with."""

from __future__ import annotations

from typing import Annotated

import typer

from autotune.cli.completion import complete_job, complete_space

Job = Annotated[str, typer.Argument(help="The job's id, as `autotune jobs` lists it.", autocompletion=complete_job)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
SPACE = typer.Argument(help="A space file, - for stdin, or a shipped space's name.", autocompletion=complete_space)
