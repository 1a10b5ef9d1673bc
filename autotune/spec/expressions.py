"""Conditions of a space file (``require``, ``when``): parsed into a small tree, never evaluated as Python."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.spec.values import FlatConfig, JsonValue


@dataclass(frozen=True, kw_only=True, slots=True)
class Expression:
    """A parsed condition.

    Attributes:
        text: The condition as it was written.
        names: The dotted paths it reads.
    """

    text: str
    names: frozenset[str]

    def evaluate(self, values: FlatConfig) -> JsonValue:
        """The value of the expression over a configuration."""
        raise NotImplementedError

    def holds(self, values: FlatConfig) -> bool:
        """Whether the condition is true for a configuration."""
        return bool(self.evaluate(values))
