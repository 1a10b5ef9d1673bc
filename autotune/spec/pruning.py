"""The pruners a space file may name and their options: the declarative side of the registry in the search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from autotune.spec.bounds import ANY, COUNT, POSITIVE, Bounds


class OptionKind(StrEnum):
    """What an option's value is."""

    WHOLE = "whole"
    NUMBER = "number"
    METRIC = "metric"


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One option of a pruner.

    Attributes:
        default: Its value when it is not given; for a metric ``None`` stands for the objective's.
        required: Whether it must be given.
    """

    kind: OptionKind
    description: str
    default: int | float | str | None = None
    required: bool = False
    bounds: Bounds = ANY


@dataclass(frozen=True, kw_only=True, slots=True)
class PrunerKind:
    """A pruner's description and its options by name."""

    description: str
    options: Mapping[str, Option]


def _patience(default: int) -> Option:
    description = "Consecutive reports on the wrong side that are needed."
    return Option(kind=OptionKind.WHOLE, description=description, default=default, bounds=COUNT)


def _min_steps(default: int) -> Option:
    description = "Steps before this one are forgiven."
    return Option(kind=OptionKind.WHOLE, description=description, default=default, bounds=COUNT)


PRUNERS: Mapping[str, PrunerKind] = {
    "asha": PrunerKind(
        description="Stops a trial that is not among the best of those that reached the same rung.",
        options={
            "min_steps": Option(
                kind=OptionKind.WHOLE, description="The first rung, in training steps.", required=True, bounds=COUNT
            ),
            "reduction_factor": Option(
                kind=OptionKind.NUMBER,
                description="One of this many trials passes a rung; each rung is this many times longer.",
                default=3,
                bounds=Bounds(low=1.5, high=1000),
            ),
            "metric": Option(kind=OptionKind.METRIC, description="The curve compared; the objective's if not given."),
        },
    ),
    "kl_ceiling": PrunerKind(
        description="Stops a trial whose KL to the reference stays above a ceiling.",
        options={
            "above": Option(
                kind=OptionKind.NUMBER, description="The ceiling, in nats per token.", required=True, bounds=POSITIVE
            ),
            "patience": _patience(3),
            "metric": Option(kind=OptionKind.METRIC, description="The KL curve.", default="kl/actor_ref"),
            "min_steps": _min_steps(1),
        },
    ),
    "reward_collapse": PrunerKind(
        description="Stops a trial that has lost a good part of the best reward it ever had.",
        options={
            "drop": Option(
                kind=OptionKind.NUMBER,
                description="Part of the best smoothed reward so far that is lost.",
                required=True,
                bounds=Bounds(above=0, high=1),
            ),
            "patience": _patience(5),
            "metric": Option(kind=OptionKind.METRIC, description="The reward curve.", default="reward/mean"),
            "smooth": Option(
                kind=OptionKind.WHOLE, description="Reports that are averaged first.", default=3, bounds=COUNT
            ),
            "min_steps": _min_steps(5),
        },
    ),
    "not_finite": PrunerKind(
        description="Stops a trial whose metrics are not finite; the trial counts as infeasible.",
        options={"patience": _patience(1)},
    ),
}
"""Name in the space file -> what it takes."""
