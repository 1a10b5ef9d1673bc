"""One finding of a check: what was looked at, how it is, and the fix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from autotune.settings import Settings


class Status(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"
    """Works, but probably not as wanted."""
    FAIL = "fail"
    """Nothing can run before this is repaired."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One finding.

    Attributes:
        name: What was looked at.
        text: How it is, with the value found.
        fix: What to do about it; empty when it is fine.
        exit_code: Exit code of a command that ends because of this failure.
    """

    name: str
    status: Status
    text: str
    fix: str = ""
    exit_code: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What the checks look at.

    Attributes:
        port: The port that the service would listen on.
    """

    settings: Settings
    port: int


CheckFunction: TypeAlias = Callable[[Context], Iterable[Check]]
