"""JSON values and flat configurations, the two shapes everything in a space file is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None
FlatConfig: TypeAlias = Mapping[str, JsonValue]
"""Dotted path of the configuration tree -> value, for example ``{"trainer.optim.lr": 1e-6}``."""
