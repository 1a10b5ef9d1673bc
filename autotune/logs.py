"""How log records are written: as lines or as JSON, with the request, the job and the trial, never with a secret."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Format = Literal["text", "json"]

FIELDS = ("request_id", "job", "trial", "attempt", "caller", "method", "route", "status", "ms")
"""What a record may carry besides its message, as ``extra=`` or by ``about`` and ``of_process``."""
_CONTEXT: ContextVar[dict[str, object] | None] = ContextVar("autotune_log_context", default=None)
_PROCESS: dict[str, object] = {}
_SHAPES = (
    (re.compile(r"\b(at_[a-z0-9]{12})_[A-Za-z0-9_-]{8,}"), r"\1_***"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}"), r"\1 ***"),
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@]*:)[^\s@]+@"), r"\1***@"),
    (re.compile(r"\b(hf|ghp|sk)_[A-Za-z0-9]{16,}"), r"\1_***"),
)
_SECRETS = (
    *_SHAPES,
    (
        re.compile(r"(?i)\b([a-z0-9_]*(?:password|passwd|secret|api_?key|access_?token))(\s*[=:]\s*)[^\s,;&'\"]+"),
        r"\1\2***",
    ),
)


def holds_secret(text: str) -> bool:
    """Whether there is something in the text that has the form of a token, or a URL with a password."""
    return any(pattern.search(text) for pattern, _ in _SHAPES)


def redacted(text: str) -> str:
    """The text without what looks like a token, a password or a URL's credentials."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


@contextmanager
def about(**fields: object) -> Iterator[None]:
    """Adds fields to every record of this task or thread while the block lasts."""
    token = _CONTEXT.set({**(_CONTEXT.get() or {}), **fields})
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def of_process(**fields: object) -> None:
    """Adds fields to every record of this process, whatever thread writes it."""
    _PROCESS.update(fields)


def set_up(handler: logging.Handler, level: int, form: Format) -> None:
    """Sends all records of this process, those of libraries too, to one handler."""
    handler.setFormatter(JsonLines() if form == "json" else Lines())
    logging.captureWarnings(True)
    logging.basicConfig(handlers=[handler], level=level)


class Lines(logging.Formatter):
    """A record as a line for people; a message cannot pretend to be another line."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base class names it so
        """The line without the traceback."""
        return "".join(
            char if char.isprintable() else char.encode("unicode_escape").decode()
            for char in super().formatMessage(record)
        )

    def format(self, record: logging.LogRecord) -> str:
        """The whole record."""
        return redacted(super().format(record))


class JsonLines(logging.Formatter):
    """A record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The whole record."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage()),
        }
        known = {**_PROCESS, **(_CONTEXT.get() or {}), **record.__dict__}
        line |= {name: _plain(known[name]) for name in FIELDS if known.get(name) is not None}
        if record.exc_info:
            line["exception"] = redacted(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False, default=str)


def _plain(value: object) -> object:
    return value if isinstance(value, (int, float)) else redacted(str(value))
