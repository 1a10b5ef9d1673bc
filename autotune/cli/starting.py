"""From a person's answers to the first space file: asks for what is missing, makes the text, checks and writes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from autotune.errors import AutotuneError, InvalidSpaceError, NotAllowedError, NotFoundError, UsageError
from autotune.spec.starter import BUILT_IN_DATA, GOALS, Wishes, first_space, slug
from autotune.spec.starter.wishes import PACKED, TINY

_USUAL_NAME = "my-search"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """What was given as flags; ``None`` is what may be asked for. The meaning of each is that of ``Wishes``."""

    model: str | None
    data: str | None
    eval_data: str
    reward: str | None
    gpus: int | None
    goal: str | None
    trials: int
    steps: int
    verl_script: str | None
    python: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """A space file that is not written yet.

    Attributes:
        notes: What to look at in it.
        from_script: Whether it was made of a script that starts verl.
    """

    text: str
    notes: tuple[str, ...] = ()
    from_script: bool = False


def make(answers: Answers, *, ask: bool) -> Made:
    """The space file; what the flags leave open is asked for, or is what is usual.

    Raises:
        UsageError: If an answer is not allowed, or is missing where nothing is usual.
        NotFoundError: If a file that was named does not exist.
        InvalidConfigError: If the script does not start verl.
    """
    name = slug(answers.name)
    script = answers.verl_script
    if script is None and ask and answers.model is None and answers.data is None:
        script = _asked("Script that starts verl today (empty = none)", "") or None
    if script is not None:
        return _of_script(script, answers, name)
    if answers.python:
        raise UsageError("--python is the interpreter of verl's environment.", hint="Add --verl-script run.sh")
    model = _given(answers.model, "Model: tiny, smollm2, a directory, or a name on the Hub", TINY, ask)
    model = model if model in PACKED else _place(model)
    data = _given(answers.data, _question_of_data(), BUILT_IN_DATA[0] if model == TINY else None, ask)
    files = data not in BUILT_IN_DATA
    reward = _given(answers.reward, "Reward: exact_match, gsm8k, ... or module:function", "exact_match", ask and files)
    gpus = answers.gpus
    if gpus is None:
        gpus = _number(_asked("GPUs to use in all", str(_gpus_here()))) if ask else _gpus_here()
    goals = "; ".join(f"{goal} = {about}" for goal, about in GOALS.items())
    goal = _given(answers.goal, f"Goal: {goals}", "effect", ask)
    wishes = Wishes(
        name=name if name and name != "space" else _USUAL_NAME,
        model=model,
        data=_file(data) if files and Path(data).suffix else data,
        eval_data=_file(answers.eval_data) if answers.eval_data else "",
        reward=reward if files or answers.reward else "",
        gpus=gpus,
        goal=goal,
        trials=answers.trials,
        steps=answers.steps,
    )
    return Made(text=first_space(wishes))


def checked(text: str, file: str, *, raising: bool) -> AutotuneError | None:
    """What ``plan`` says against the file; ``None`` when it passes.

    Args:
        text: The space file.
        file: Its name, for messages.
        raising: Raise it instead. A file made of somebody's script is worth having although verl is elsewhere.

    Raises:
        InvalidSpaceError: If it does not pass.
    """
    from autotune.cli.connect import connect

    try:
        with connect() as connection:
            connection.client.plan(text, file=file)
    except InvalidSpaceError as error:
        if raising:
            raise
        return error
    return None


def write(text: str, file: str) -> None:
    """Writes the file, unless it goes to stdout.

    Raises:
        NotAllowedError: If it cannot be written.
    """
    if file == "-":
        return
    try:
        Path(file).expanduser().write_text(text, encoding="utf-8")
    except OSError as error:
        raise NotAllowedError(f"{file} cannot be written: {error.strerror}.", hint="Name another file.") from error


def _of_script(script: str, answers: Answers, name: str) -> Made:
    from autotune.backends.verl.importing import import_script

    path = Path(script).expanduser()
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise NotFoundError(
            f"{script} cannot be read: {error.strerror}.", hint="Name the script that starts verl."
        ) from error
    usual = slug(path.stem) or _USUAL_NAME
    made = import_script(text, name=name if name and name != "space" else usual, python=answers.python)
    return Made(text=made.text, notes=made.notes, from_script=True)


def _question_of_data() -> str:
    return f"Data: {', '.join(BUILT_IN_DATA)}, or a file of prompts (.jsonl or .parquet)"


def _given(flag: str | None, question: str, usual: str | None, ask: bool) -> str:
    if flag is not None:
        return flag
    if ask:
        return _asked(question, usual)
    if usual is None:
        raise UsageError(
            "a model of your own needs data of your own, and none was named.",
            hint="Add for example --data prompts.jsonl: one JSON object a line, with prompt and ground_truth.",
        )
    return usual


def _asked(question: str, usual: str | None) -> str:
    try:
        answer: str = typer.prompt(question, default=usual, err=True, show_default=bool(usual))
    except typer.Abort:
        raise UsageError(
            f"nobody answered the question {question.partition(':')[0]!r}.",
            hint="Give the answers as flags, and --yes for what is usual otherwise: autotune init --help",
        ) from None
    return answer.strip()


def _number(text: str) -> int:
    if text.isdecimal():
        return int(text)
    raise UsageError(f"the number of GPUs is a whole number of 0 or more, got {text!r}.", hint="0 = train on the CPU.")


def _gpus_here() -> int:
    from autotune.preflight.machine import gpu_count

    return gpu_count()


def _place(model: str) -> str:
    """A model that is a directory here gets its absolute path, since each trial runs in a directory of its own."""
    path = Path(model).expanduser()
    if path.is_dir():
        return str(path.absolute())
    if model.startswith(("/", "~", "./", "../")):
        raise NotFoundError(f"there is no directory {model!r}.", hint="Name a directory with config.json and weights.")
    return model


def _file(given: str) -> str:
    path = Path(given).expanduser()
    if not path.is_file():
        raise NotFoundError(f"there is no file {given!r}.", hint="Name the file with the prompts, .jsonl or .parquet.")
    return str(path.absolute())
