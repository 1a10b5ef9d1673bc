"""Read the rows of a prompt file, each checked; what is wrong is named by file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainer.config import ConfigError, ConfigProblem
from trainer.failures import DataError

Messages = tuple[Mapping[str, str], ...]
Record = Mapping[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One prompt of a file, in verl's terms.

    Attributes:
        place: File and line (or row, in a Parquet file), 1-based, for messages.
        index: Place within the file, 0-based; identifies the prompt.
        prompt: A text, or chat messages with role and content.
        ground_truth: The expected answer, or None when the row has none.
        data_source: Where the prompt comes from; empty when the row does not say.
        extra_info: What else the row knows.
    """

    place: str
    index: int
    prompt: str | Messages
    ground_truth: str | None
    data_source: str
    extra_info: Mapping[str, object]


def read_rows(path: Path, file_format: str, key: str) -> list[Row]:
    """All rows of a file.

    Args:
        path: The file.
        file_format: jsonl | parquet.
        key: The configuration key that named the file, for messages.

    Raises:
        ConfigError: There is no such file.
        DataError: The file cannot be read or holds no row, or a row is malformed.
    """
    return [prompt_row(record, place, index) for index, (place, record) in enumerate(records(path, file_format, key))]


def records(path: Path, file_format: str, key: str) -> list[tuple[str, Record]]:
    """The place and the columns of every row of a file, whatever its columns mean.

    Arguments and errors as in `read_rows`.
    """
    if not path.is_file():
        message = f"there is no file {str(path)!r}"
        hint = "" if path.is_absolute() else "a trial runs in a directory of its own: write an absolute path"
        raise ConfigError([ConfigProblem(path=key, message=message, hint=hint)])
    found = list(_json_lines(path) if file_format == "jsonl" else _parquet(path))
    if not found:
        raise DataError(f"{path} holds no rows", hint="one row per line")
    checked: list[tuple[str, Record]] = []
    for place, record in found:
        if not isinstance(record, Mapping):
            raise DataError(f"{place}: is a {type(record).__name__}, must be an object")
        checked.append((place, record))
    return checked


def _json_lines(path: Path) -> Iterator[tuple[str, object]]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error}", hint="is it a Parquet file (data=parquet)?") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield f"{path}:{number}", json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(
                f"{path}:{number}: is no JSON: {error.msg} (column {error.colno})", hint="one JSON object per line"
            ) from error


def _parquet(path: Path) -> Iterator[tuple[str, object]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        message = "data.name = parquet needs the package pyarrow"
        raise ConfigError([ConfigProblem(path="data.name", message=message, hint="pip install pyarrow")]) from error
    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}", hint="is it JSONL (data=jsonl)?") from error
    for number, record in enumerate(table.to_pylist(), 1):
        yield f"{path}:{number}", record


def prompt_row(record: Record, place: str, index: int) -> Row:
    """The prompt in the columns of a row, and what goes with it.

    Raises:
        DataError: It is missing or malformed.
    """
    if record.get("prompt") is None:
        raise absent("prompt", record, place)
    extra = record.get("extra_info")
    if extra is not None and not isinstance(extra, Mapping):
        raise DataError(f"{place}: extra_info is a {type(extra).__name__}, must be an object")
    return Row(
        place=place,
        index=index,
        prompt=_prompt(record["prompt"], place),
        ground_truth=_ground_truth(record, place),
        data_source=str(record.get("data_source") or ""),
        extra_info=extra or {},
    )


def text_or_messages(value: object, name: str, place: str) -> str | Messages:
    """A column that holds a text or chat messages.

    Raises:
        DataError: It holds neither.
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, list | tuple) or not value:
        raise DataError(f"{place}: the {name} is {value!r}, must be a text or a list of messages")
    for message in value:
        whole = isinstance(message, Mapping) and all(isinstance(message.get(key), str) for key in ("role", "content"))
        if not whole:
            raise DataError(f"{place}: got the message {message!r}, must have role and content, both text")
    return tuple({"role": message["role"], "content": message["content"]} for message in value)


def absent(name: str, record: Record, place: str) -> DataError:
    """The error that a row lacks a column."""
    return DataError(f"{place}: has no {name}; its keys are {', '.join(map(str, record)) or 'none'}")


def _prompt(prompt: object, place: str) -> str | Messages:
    checked = text_or_messages(prompt, "prompt", place)
    if not checked:
        raise DataError(f"{place}: the prompt is empty")
    return checked


def _ground_truth(record: Mapping[str, object], place: str) -> str | None:
    reward_model = record.get("reward_model")
    if reward_model is not None and not isinstance(reward_model, Mapping):
        raise DataError(f"{place}: reward_model is a {type(reward_model).__name__}, must be an object")
    truth = (reward_model or {}).get("ground_truth", record.get("ground_truth"))
    if truth is None:
        return None
    if isinstance(truth, bool) or not isinstance(truth, str | int | float):
        raise DataError(f"{place}: the ground truth is {truth!r}, must be a text or a number")
    return str(truth)
