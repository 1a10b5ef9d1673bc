"""``autotune init``: the first space file, from a few questions or from flags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from autotune.errors import AutotuneError


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(init)


def init(  # noqa: PLR0913 - the flags are the command's face
    file: Annotated[str, typer.Argument(help="Where to write; - for stdout.")] = "space.yaml",
    model: Annotated[
        str | None, typer.Option(help="tiny, smollm2, a directory in Hugging Face format, or a name on the Hub.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="digits, arithmetic, or a file of prompts (.jsonl or .parquet).")
    ] = None,
    eval_data: Annotated[str, typer.Option(help="A file of held-out prompts; else a part of the data is.")] = "",
    reward: Annotated[
        str | None, typer.Option(help="A built-in reward (exact_match, gsm8k, ...) or yours as module:function.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(min=0, help="GPUs to use, one for each trial at a time; 0 = none.")
    ] = None,
    goal: Annotated[str | None, typer.Option(help="effect, stability, throughput, or all of them in stages.")] = None,
    trials: Annotated[int, typer.Option(min=0, help="Trials to try; 0 = what is usual for the goal.")] = 0,
    steps: Annotated[int, typer.Option(min=0, help="Training steps of a trial; 0 = what is usual.")] = 0,
    verl_script: Annotated[
        str | None, typer.Option(help="The script that starts verl today; it is read, never run.")
    ] = None,
    python: Annotated[str, typer.Option(help="With --verl-script: interpreter of verl's environment.")] = "",
    name: Annotated[str, typer.Option(help="Name of the space; from the file's name if not given.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; take what is usual.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Write a first space file: asks for model, data, GPUs and goal, or takes them as flags."""
    from autotune.cli.output import print_json
    from autotune.cli.starting import Answers, checked, make, write

    _refuse_overwriting(file, force)
    answers = Answers(
        model=model,
        data=data,
        eval_data=eval_data,
        reward=reward,
        gpus=gpus,
        goal=goal,
        trials=trials,
        steps=steps,
        verl_script=verl_script,
        python=python,
        name=name or ("" if file == "-" else Path(file).stem),
    )
    made = make(answers, ask=not yes and not as_json)
    refusal = checked(made.text, file, raising=not made.from_script)
    write(made.text, file)
    notes = [*made.notes, *([] if refusal is None else _lines(refusal))]
    following = [] if file == "-" else [f"autotune plan {file}", f"autotune launch {file}"]
    if as_json:
        path = None if file == "-" else str(Path(file).absolute())
        print_json({"path": path, "space": made.text, "notes": notes, "next": following})
    else:
        _tell(made.text, file, notes, following)


def _refuse_overwriting(file: str, force: bool) -> None:
    from autotune.errors import ConflictError

    if file != "-" and not force and Path(file).expanduser().exists():
        raise ConflictError(f"{file} exists already.", hint="Name another file, or overwrite it with --force.")


def _lines(refusal: AutotuneError) -> list[str]:
    return [refusal.message, *(str(problem) for problem in refusal.problems)]


def _tell(text: str, file: str, notes: list[str], following: list[str]) -> None:
    from autotune.cli.output import data, say, warn

    data(text.rstrip("\n") if file == "-" else file)
    for note in notes:
        warn(note)
    for command in following:
        say(f"next: {command}")
