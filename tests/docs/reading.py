"""Finds the pages, and what in them is a command or a file."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    page for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")] if page.is_file()
)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`((?:\.venv/bin/)?autotune [^`]+)`")
_START = re.compile(r"^(?:\$ )?((?:[A-Z_]+=\S+ )*)(?:\.venv/bin/)?autotune ")


def blocks(page: Path, *languages: str) -> list[str]:
    """The fenced blocks of a page in one of these languages."""
    return [text for language, text in _FENCE.findall(page.read_text()) if language in languages]


def commands(page: Path) -> list[list[str]]:
    """The words after ``autotune`` of every command in the page's blocks, comments and pipes cut off."""
    found = []
    for block in blocks(page, "sh", "bash", "console"):
        for line in block.replace("\\\n", " ").splitlines():
            if _START.match(line):
                words = shlex.split(_START.sub("", line), comments=True)
                end = next(
                    (place for place, word in enumerate(words) if word in ("|", ">", "&", "&&", "<")), len(words)
                )
                found.append(words[:end])
    return found


def mentions(page: Path) -> list[list[str]]:
    """The words after ``autotune`` of every command in running text."""
    text = _FENCE.sub("", page.read_text())
    return [
        shlex.split(" ".join(found.split()).partition("autotune ")[2].split(" | ")[0].split(" > ")[0])
        for found in _INLINE.findall(text)
    ]
