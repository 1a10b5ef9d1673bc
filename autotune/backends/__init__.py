"""Backends: what a trial can run, by name."""

from __future__ import annotations

from collections.abc import Callable

from autotune.backends.base import Backend, Command, Description
from autotune.backends.command import CommandBackend
from autotune.backends.native import NativeBackend
from autotune.backends.verl.backend import VerlBackend
from autotune.errors import UsageError
from autotune.spec.nearest import did_you_mean

BACKENDS: dict[str, Callable[[float], Backend]] = {
    "native": NativeBackend,
    "verl": VerlBackend,
    "command": CommandBackend,
}
"""Name in the space file -> factory from the number of cores that one trial occupies."""

__all__ = [
    "BACKENDS",
    "Backend",
    "Command",
    "CommandBackend",
    "Description",
    "NativeBackend",
    "VerlBackend",
    "get_backend",
]


def get_backend(name: str, cpus: float = 1.0) -> Backend:
    """The backend of that name.

    Args:
        name: As in ``trainer.backend`` of the space file.
        cpus: Cores that one trial occupies.

    Raises:
        UsageError: If there is no such backend.
    """
    if name not in BACKENDS:
        known = ", ".join(sorted(BACKENDS))
        raise UsageError(f"unknown backend {name!r}; known are {known}.", hint=did_you_mean(name, BACKENDS))
    return BACKENDS[name](cpus)
