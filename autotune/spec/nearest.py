"""The known word that a person probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SHOWN = 12


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The closest of ``known``; dotted paths and metrics are also compared by their last part alone."""
    choices = sorted(map(str, known))
    lower = {choice.lower(): choice for choice in reversed(choices)}
    close = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.6)
    if close:
        return lower[close[0]]
    tails = {_tail(choice).lower(): choice for choice in reversed(choices)}
    close = difflib.get_close_matches(_tail(word).lower(), tails, n=1, cutoff=0.7)
    return tails[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that names the closest known word, or the known words when none is close."""
    choices = sorted(map(str, known))
    close = nearest(word, choices)
    if close is not None:
        return f"Did you mean {close!r}?"
    rest = f" and {len(choices) - SHOWN} more" if len(choices) > SHOWN else ""
    return f"Known are: {', '.join(choices[:SHOWN])}{rest}." if choices else ""


def _tail(word: str) -> str:
    return word.replace("/", ".").rsplit(".", 1)[-1]
