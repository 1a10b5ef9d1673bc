"""Read single values of a flat configuration, with a default where a trainer does not have the key."""

from __future__ import annotations

from autotune.spec.values import FlatConfig


def number(config: FlatConfig, key: str, default: int) -> int:
    """A whole number, at least 0."""
    value = config.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return default
    return max(0, int(value))


def text(config: FlatConfig, key: str, default: str) -> str:
    """A word."""
    value = config.get(key)
    return value if isinstance(value, str) and value else default


def flag(config: FlatConfig, key: str) -> bool:
    """Whether a switch is on."""
    return config.get(key) is True
