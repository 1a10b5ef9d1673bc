"""Numbers as programs print them."""

from __future__ import annotations

import re

_WRAPPED = re.compile(r"[A-Za-z_][\w.]*\(\s*([-+\w.]+)\s*(?:,.*)?\)")


def number(value: object) -> float | None:
    """The number that stands there, maybe not finite; ``None`` if it is none.

    ``np.float64(0.5)`` and ``tensor(0.5, device='cuda:0')`` are numbers, ``true`` is not.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return float("inf")
    if not isinstance(value, str):
        return None
    text = value.strip()
    wrapped = _WRAPPED.fullmatch(text)
    try:
        return float(wrapped[1] if wrapped else text)
    except ValueError:
        return None


def whole(value: object) -> int | None:
    """The whole number >= 0 that stands there; ``3.0`` is whole too."""
    found = number(value)
    return int(found) if found is not None and found >= 0 and found.is_integer() else None
