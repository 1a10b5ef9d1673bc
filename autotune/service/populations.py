"""Whether what a space asks of a population can be had from its backend."""

from __future__ import annotations

from autotune.backends import get_backend
from autotune.backends.base import Changeable
from autotune.spec.places import place_of
from autotune.spec.reader import Report
from autotune.spec.types import Space
from autotune.spec.values import FlatConfig


def check_population(space: Space, base: FlatConfig, steps: int) -> None:
    """Refuses a population whose trials could not take over from each other.

    Args:
        space: A space that was checked.
        base: The complete configuration before the searched parameters, flat.
        steps: Training steps of a full trial.

    Raises:
        InvalidSpaceError: With every problem, each at its place in the file.
    """
    if space.population is None:
        return
    report, backend = Report(), get_backend(space.trainer.backend)
    if not isinstance(backend, Changeable):
        message = f"the backend {backend.name!r} cannot go on from another trial's checkpoint with other values."
        report.add(place_of(space, "strategy"), "strategy", message, "Use backend: native, or remove `strategy`.")
    else:
        for path, why in backend.fixed(base, space.search).items():
            searched = path in space.search
            where = f"search.{path}" if searched else "strategy"
            message = f"{path} cannot change while a trial runs: {why}."
            hint = "Fix it under trainer.overrides, or search without `strategy`."
            report.add(place_of(space, where), where, message, hint if searched else f"Set {path} to null.")
    interval = space.population.interval
    if interval >= steps:
        path = "strategy.pbt.interval"
        message = f"an interval of {interval} steps never ends within the {steps} steps of a trial."
        report.add(place_of(space, path), path, message, f"Write an interval below {steps}.")
    report.close(place_of(space, "")[0] or "space.yaml")
