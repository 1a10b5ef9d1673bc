"""Lines for people, on stderr. Imports no torch."""

from __future__ import annotations

import shutil
import sys

_ERASE = "\r\x1b[2K"
_pending = False


def say(text: str) -> None:
    """Write one line to stderr at once."""
    global _pending
    sys.stderr.write(f"{_ERASE if _pending else ''}{text}\n")
    sys.stderr.flush()
    _pending = False


def is_terminal() -> bool:
    """Whether stderr is a terminal that a person looks at."""
    return sys.stderr.isatty()


def show_live(text: str) -> None:
    """Write a line that the next line takes the place of; for a terminal (see `is_terminal`)."""
    global _pending
    width = shutil.get_terminal_size().columns
    sys.stderr.write(f"{_ERASE}{text[: width - 1]}")
    sys.stderr.flush()
    _pending = True


def bar(done: int, total: int, *, width: int = 20) -> str:
    """A bar of `width` places, filled as far as done of total."""
    filled = width * done // max(total, 1)
    return f"[{'#' * filled}{'.' * (width - filled)}]"
