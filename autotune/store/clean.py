"""Makes values fit for JSON columns: no NaN, no infinity, no bytes that a database refuses."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import cast

from autotune.spec.values import JsonValue

_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def text(value: str) -> str:
    """A string without NUL and lone surrogates, which PostgreSQL and UTF-8 refuse (logs of crashed processes)."""
    if value.isascii() and "\x00" not in value:
        return value
    return value.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


def number(value: float | None) -> float | None:
    """A finite number, or ``None``."""
    return value if value is not None and math.isfinite(value) else None


def numbers(values: Mapping[str, float | None]) -> dict[str, float | None]:
    """A mapping of numbers in which every non-finite one is ``None``."""
    return {text(name): number(value) for name, value in values.items()}


def plain(value: object) -> JsonValue:
    """A JSON value in which every non-finite number is ``None`` and every string can be stored."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        return {text(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [plain(item) for item in value]
    return cast("JsonValue", value)


def dumps(value: object) -> str:
    """JSON in its shortest form; the engine's serialiser.

    Raises:
        ValueError: If a non-finite number is left in ``value``.
    """
    return _ENCODER.encode(value)
