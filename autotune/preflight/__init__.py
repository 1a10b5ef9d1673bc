"""Checks before anything is spent: what is installed, what the machine has, and whether the places answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autotune.preflight import machine, packages, places
from autotune.preflight.check import Check, CheckFunction, Context, Status

__all__ = ["CHECKS", "CLIENT_CHECKS", "Check", "CheckFunction", "Context", "Status", "run_checks"]

CHECKS: Mapping[str, CheckFunction] = {
    "python": packages.python,
    "packages": packages.packages,
    "training": packages.training,
    "rollout": packages.rollout,
    "cpus": machine.cpus,
    "memory": machine.memory,
    "gpus": machine.gpus,
    "home": places.home,
    "disk": machine.disk,
    "database": places.database,
    "mlflow": places.mlflow,
    "ray": places.ray,
    "port": places.port,
}
"""Every check, in the order in which a person wants to read them."""

CLIENT_CHECKS = ("python", "packages")
"""What matters on a machine that only talks to a service elsewhere."""


def run_checks(context: Context, names: Iterable[str] = tuple(CHECKS)) -> list[Check]:
    """Runs the named checks. A check that itself breaks is a failure and hides none of the others."""
    found: list[Check] = []
    for name in names:
        try:
            found.extend(CHECKS[name](context))
        except Exception as error:  # noqa: BLE001 - a diagnosis must not end at its first surprise
            found.append(
                Check(name=name, status=Status.FAIL, text=f"could not be checked: {type(error).__name__}: {error}")
            )
    return found
