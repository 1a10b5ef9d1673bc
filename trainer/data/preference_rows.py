"""Read rows that say which answers are better: pairs of a chosen and a rejected one, or single ones with a label."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainer.data.rows import Messages, Record, Row, absent, prompt_row, records, text_or_messages
from trainer.failures import DataError


@dataclass(frozen=True, kw_only=True, slots=True)
class PairRow:
    """A prompt with a better and a worse answer.

    Attributes:
        row: The prompt and what goes with it.
        chosen: The better answer.
        rejected: The worse one.
    """

    row: Row
    chosen: str
    rejected: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelRow:
    """A prompt with an answer that is good or bad.

    Attributes:
        row: The prompt and what goes with it.
        completion: The answer.
        label: Whether it is good.
    """

    row: Row
    completion: str
    label: bool


def read_pairs(path: Path, file_format: str, key: str) -> list[PairRow]:
    """All rows with the columns prompt, chosen and rejected; arguments and errors as in `read_rows`.

    The answers are texts, assistant messages, or whole conversations that are alike up to their last message; then the
    prompt is what they share, and its own column may be left out.
    """
    rows = []
    for index, (place, record) in enumerate(records(path, file_format, key)):
        prompt, (chosen, rejected) = _answers(record, ("chosen", "rejected"), place)
        row = prompt_row({**record, "prompt": prompt}, place, index)
        rows.append(PairRow(row=row, chosen=chosen, rejected=rejected))
    return rows


def read_labels(path: Path, file_format: str, key: str) -> list[LabelRow]:
    """All rows with the columns prompt, completion and label (true or false); else as `read_pairs`."""
    rows = []
    for index, (place, record) in enumerate(records(path, file_format, key)):
        prompt, (completion,) = _answers(record, ("completion",), place)
        row = prompt_row({**record, "prompt": prompt}, place, index)
        rows.append(LabelRow(row=row, completion=completion, label=_label(record, place)))
    return rows


def _label(record: Record, place: str) -> bool:
    label = record.get("label")
    if label is None:
        raise absent("label", record, place)
    if isinstance(label, int) and label in (0, 1):  # tables often hold booleans as numbers
        return bool(label)
    raise DataError(f"{place}: the label is {label!r}, must be true (a good answer) or false (a bad one)")


def _answers(record: Record, names: tuple[str, ...], place: str) -> tuple[object, list[str]]:
    """The prompt, which the prompt's own rules check later, and the text of each answer."""
    for name in names:
        if record.get(name) is None:
            raise absent(name, record, place)
    values = [text_or_messages(record[name], name, place) for name in names]
    prompt = record.get("prompt")
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) == len(values):
        return prompt, texts
    chats = [value for value in values if not isinstance(value, str)]
    if texts:
        raise DataError(f"{place}: {' and '.join(names)} must both be texts or both be lists of messages")
    for name, chat in zip(names, chats, strict=True):
        if chat[-1]["role"] != "assistant":
            raise DataError(f"{place}: the last message of {name} is of {chat[-1]['role']!r}, must be the assistant's")
    answers = [chat[-1]["content"] for chat in chats]
    heads = [chat[:-1] for chat in chats]
    if any(head != heads[0] for head in heads):
        raise DataError(
            f"{place}: {' and '.join(names)} differ before their last message",
            hint="only the last answer is compared: cut the conversations after the first message that differs",
        )
    return _shared_prompt(prompt, heads[0], names, place), answers


def _shared_prompt(prompt: object, head: Messages, names: tuple[str, ...], place: str) -> object:
    """The prompt of answers given as messages: its own column, or the conversation that comes before the answers."""
    if not head:
        return [{"role": "user", "content": prompt}] if isinstance(prompt, str) and prompt else prompt
    if prompt is None:
        return head
    if isinstance(prompt, str):
        same = any(message["content"] == prompt for message in head)
    else:
        same = text_or_messages(prompt, "prompt", place) == head
    if not same:
        raise DataError(
            f"{place}: {' and '.join(names)} hold whole conversations, but they do not begin with the prompt",
            hint="leave out the column prompt, or give the assistant's answer alone",
        )
    return head
