"""Lines for people, on stderr. Imports no torch."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Write one line to stderr at once."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
