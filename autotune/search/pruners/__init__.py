"""Pruners: they read curves and answer continue or stop, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autotune.errors import InvalidSpaceError
from autotune.search.pruners.asha import Asha
from autotune.search.pruners.base import Pruner, Sight
from autotune.search.pruners.curve_rules import KlCeiling, NotFinite, RewardCollapse
from autotune.spec.types import PrunerSpec

PRUNERS: dict[str, Callable[..., Pruner]] = {
    Asha.name: Asha,
    KlCeiling.name: KlCeiling,
    RewardCollapse.name: RewardCollapse,
    NotFinite.name: NotFinite,
}
"""Name in the space file -> class; the options of the space file are its fields."""

__all__ = ["PRUNERS", "Asha", "KlCeiling", "NotFinite", "Pruner", "RewardCollapse", "Sight", "build_pruners"]


def build_pruners(specs: Sequence[PrunerSpec]) -> list[Pruner]:
    """Builds the pruners of a space in its order.

    Raises:
        InvalidSpaceError: If a name is unknown or an option does not fit.
    """
    pruners: list[Pruner] = []
    for spec in specs:
        if spec.name not in PRUNERS:
            raise InvalidSpaceError(f"unknown pruner {spec.name!r}; known are {', '.join(sorted(PRUNERS))}.")
        options: dict[str, Any] = dict(spec.options)
        try:
            pruners.append(PRUNERS[spec.name](**options))
        except TypeError as error:
            raise InvalidSpaceError(f"pruner {spec.name!r} does not take these options: {error}.") from error
    return pruners
