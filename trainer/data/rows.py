"""Read the rows of a prompt file, each checked; what is wrong is named by file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainer.config import ConfigError, ConfigProblem
from trainer.failures import DataError

Messages = tuple[Mapping[str, str], ...]


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
    if not path.is_file():
        message = f"there is no file {str(path)!r}"
        hint = "" if path.is_absolute() else "a trial runs in a directory of its own: write an absolute path"
        raise ConfigError([ConfigProblem(path=key, message=message, hint=hint)])
    records = _json_lines(path) if file_format == "jsonl" else _parquet(path)
    rows = [_row(record, place, index) for index, (place, record) in enumerate(records)]
    if not rows:
        raise DataError(f"{path} holds no rows", hint="one prompt per line")
    return rows


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


def _row(record: object, place: str, index: int) -> Row:
    if not isinstance(record, Mapping):
        raise DataError(f"{place}: is a {type(record).__name__}, must be an object with a prompt")
    if record.get("prompt") is None:
        raise DataError(f"{place}: has no prompt; its keys are {', '.join(map(str, record)) or 'none'}")
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


def _prompt(prompt: object, place: str) -> str | Messages:
    if isinstance(prompt, str):
        if not prompt:
            raise DataError(f"{place}: the prompt is empty")
        return prompt
    if not isinstance(prompt, list) or not prompt:
        raise DataError(f"{place}: the prompt is {prompt!r}, must be a text or a list of messages")
    for message in prompt:
        whole = isinstance(message, Mapping) and all(isinstance(message.get(key), str) for key in ("role", "content"))
        if not whole:
            raise DataError(f"{place}: got the message {message!r}, must have role and content, both text")
    return tuple({"role": message["role"], "content": message["content"]} for message in prompt)


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
