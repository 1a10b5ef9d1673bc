"""What is printed: data on stdout as a table or as one JSON document, everything else on stderr."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from autotune.errors import AutotuneError

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NUMERIC = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?[a-z%]*|-|")


def clean(text: str) -> str:
    """Takes out control characters, so that a name or a log line cannot drive the terminal."""
    return _CONTROL.sub("", text)


def plain(value: object) -> object:
    """Turns views into what JSON can hold; a number that is not finite becomes ``null``."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def print_json(value: object) -> None:
    """Prints one JSON document on stdout."""
    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def data(text: str = "") -> None:
    """Prints a line of data on stdout."""
    sys.stdout.write(clean(text) + "\n")


def say(text: str) -> None:
    """Prints a line for people on stderr."""
    sys.stderr.write(clean(text) + "\n")
    sys.stderr.flush()


def warn(text: str) -> None:
    """Prints a warning on stderr."""
    say(f"warning: {text}")


def print_error(error: AutotuneError) -> None:
    """Prints what happened, every single problem with its place, and the fix, on stderr."""
    say(f"error: {error.message}")
    for problem in error.problems:
        line = str(problem)
        if line not in error.message:
            say(f"  {line}")
    if error.hint:
        say(f"hint: {error.hint}")


def stderr_console() -> Console:
    """A rich console on stderr; it honours ``NO_COLOR``."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table on stdout: drawn and fitted on a terminal, else aligned columns that lose nothing."""
    safe = [[clean(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        lines = [list(headers), *safe]
        widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
        for line in lines:
            data("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column, header in enumerate(headers):
        numbers = all(_NUMERIC.fullmatch(row[column]) for row in safe)
        drawn.add_column(header, justify="right" if numbers else "left", overflow="fold")
    for row in safe:
        drawn.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(drawn)


def number(value: float | None, digits: int = 4) -> str:
    """A number with this many significant digits; ``-`` when there is none."""
    return "-" if value is None else f"{value:.{digits}g}"


def value_text(value: object) -> str:
    """A configuration value, short."""
    if isinstance(value, float):
        return number(value)
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)


def duration(seconds: float | None) -> str:
    """Seconds as people say them: ``45s``, ``3m20s``, ``2h05m``."""
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"


def moment(at: float | None) -> str:
    """A time in the reader's own zone."""
    return "-" if at is None else datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")
