"""Durations and amounts of memory as people write them."""

from __future__ import annotations

import re

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4}
_BYTES |= {"kib": 1024, "mib": 1024**2, "gib": 1024**3, "tib": 1024**4}


def parse_duration(text: str) -> float | None:
    """Seconds of ``30s``, ``90m``, ``24h``, ``2d`` or ``1h30m``; ``None`` if it is none of those."""
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([smhd])\s*", text)
    if not parts or not re.fullmatch(r"(?:\d{1,9}(?:\.\d{1,9})?\s*[smhd]\s*)+", text.strip()):
        return None
    return float(sum(float(amount) * _SECONDS[unit] for amount, unit in parts))


def parse_memory(text: str) -> int | None:
    """Bytes of ``64GiB``, ``512MiB``, ``8 GB`` or a plain number; ``None`` if it is none of those."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?)\s*([kmgt]?i?b?)", text.strip().lower())
    if match is None or match[2] not in _BYTES:
        return None
    return int(float(match[1]) * _BYTES[match[2]])
