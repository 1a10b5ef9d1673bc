"""Pruners: they read curves and answer continue, pause or stop, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autotune.errors import InvalidSpaceError
from autotune.search.pruners.asha import Asha
from autotune.search.pruners.base import Others, Promoter, Pruner, Sight, Study
from autotune.search.pruners.curve_rules import KlCeiling, NotFinite, RewardCollapse
from autotune.search.pruners.entropy_collapse import EntropyCollapse
from autotune.search.pruners.eval_decline import EvalDecline
from autotune.search.pruners.extrapolate import Extrapolate
from autotune.search.pruners.hyperband import Hyperband
from autotune.search.pruners.kl_slope import KlSlope
from autotune.search.pruners.length_blowup import LengthBlowup
from autotune.search.pruners.percentile import Median, Percentile
from autotune.search.pruners.plateau import Plateau
from autotune.search.pruners.throughput_floor import ThroughputFloor
from autotune.spec import plugins
from autotune.spec.types import PrunerSpec

PRUNERS: dict[str, Callable[..., Pruner]] = {
    Asha.name: Asha,
    Hyperband.name: Hyperband,
    Median.name: Median,
    Percentile.name: Percentile,
    Plateau.name: Plateau,
    Extrapolate.name: Extrapolate,
    EvalDecline.name: EvalDecline,
    KlCeiling.name: KlCeiling,
    KlSlope.name: KlSlope,
    RewardCollapse.name: RewardCollapse,
    EntropyCollapse.name: EntropyCollapse,
    LengthBlowup.name: LengthBlowup,
    ThroughputFloor.name: ThroughputFloor,
    NotFinite.name: NotFinite,
}
"""Name in the space file -> class; the options of the space file are its fields."""

__all__ = [
    "PRUNERS",
    "Asha",
    "EntropyCollapse",
    "EvalDecline",
    "Extrapolate",
    "Hyperband",
    "KlCeiling",
    "KlSlope",
    "LengthBlowup",
    "Median",
    "NotFinite",
    "Others",
    "Percentile",
    "Plateau",
    "Promoter",
    "Pruner",
    "RewardCollapse",
    "Sight",
    "Study",
    "ThroughputFloor",
    "build_pruners",
]


def build_pruners(specs: Sequence[PrunerSpec]) -> list[Pruner]:
    """Builds the pruners of a space in its order.

    Raises:
        InvalidSpaceError: If a name is unknown or an option does not fit.
    """
    pruners: list[Pruner] = []
    for spec in specs:
        options: dict[str, Any] = dict(spec.options)
        if spec.name not in PRUNERS:
            pruners.append(_plugin(spec.name, options))
            continue
        try:
            pruners.append(PRUNERS[spec.name](**options))
        except TypeError as error:
            raise InvalidSpaceError(f"pruner {spec.name!r} does not take these options: {error}.") from error
    return pruners


def _plugin(name: str, options: Mapping[str, Any]) -> Pruner:
    """The pruner of another distribution (an entry point of the group ``autotune.pruners``)."""
    if name not in plugins.names(plugins.PRUNERS):
        raise InvalidSpaceError(f"unknown pruner {name!r}; known are {', '.join(sorted(PRUNERS))}.")
    built: Any = plugins.called(plugins.PRUNERS, name, **options)
    if getattr(built, "name", None) != name or not callable(getattr(built, "judge", None)):
        raise plugins.broken(plugins.PRUNERS, name, "it has no method `judge`, or another `name`")
    pruner: Pruner = built
    return pruner
