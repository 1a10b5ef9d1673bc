"""The pruners a space file may name and their options: the declarative side of the registry in the search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from autotune.spec.bounds import ANY, COUNT, NOT_NEGATIVE, POSITIVE, Bounds


class OptionKind(StrEnum):
    """What an option's value is."""

    WHOLE = "whole"
    NUMBER = "number"
    METRIC = "metric"
    WORD = "word"


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One option of a pruner.

    Attributes:
        default: Its value when it is not given; for a metric ``None`` stands for the objective's.
        required: Whether it must be given.
        words: The values that a word may have.
    """

    kind: OptionKind
    description: str
    default: int | float | str | None = None
    required: bool = False
    bounds: Bounds = ANY
    words: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PrunerKind:
    """A pruner's description, its options by name, and how it is written."""

    description: str
    options: Mapping[str, Option]
    example: str = ""


def _whole(description: str, default: int, bounds: Bounds = COUNT) -> Option:
    return Option(kind=OptionKind.WHOLE, description=description, default=default, bounds=bounds)


def _number(description: str, default: float | None = None, bounds: Bounds = POSITIVE) -> Option:
    required = default is None
    return Option(kind=OptionKind.NUMBER, description=description, default=default, bounds=bounds, required=required)


def _metric(description: str, default: str | None = None) -> Option:
    return Option(kind=OptionKind.METRIC, description=description, default=default)


def _patience(default: int) -> Option:
    return _whole("Consecutive reports on the wrong side that are needed.", default)


def _min_steps(default: int) -> Option:
    return _whole("Steps before this one are forgiven.", default)


def _smooth(default: int) -> Option:
    return _whole("Reports that are averaged first.", default)


_PART = Bounds(above=0, high=1)
_COMPARED = _metric("The curve compared; the objective's if not given.")
_PROTECT_TOP = _whole("What is among this many best at its step is never stopped.", 3, NOT_NEGATIVE)
_RUNGS: Mapping[str, Option] = {
    "min_steps": Option(
        kind=OptionKind.WHOLE, description="The first rung, in training steps.", required=True, bounds=COUNT
    ),
    "reduction_factor": _number(
        "One of this many trials passes a rung; each rung is this many times longer.", 3, Bounds(low=1.5, high=1000)
    ),
    "metric": _COMPARED,
    "mode": Option(
        kind=OptionKind.WORD,
        description="promote: pause at a rung and launch again when there is room. stop: judge once, never go back.",
        default="promote",
        words=("promote", "stop"),
    ),
    "protect_top": _whole("In the mode stop: what is among this many best at its rung goes on.", 3, NOT_NEGATIVE),
}
_BEHIND: Mapping[str, Option] = {
    "min_steps": _min_steps(10),
    "patience": _whole("Consecutive reports behind the others that are needed.", 2),
    "min_trials": _whole("Others that must have reached the step.", 5),
    "protect_top": _PROTECT_TOP,
    "metric": _COMPARED,
}

PRUNERS: Mapping[str, PrunerKind] = {
    "asha": PrunerKind(
        description="Pauses (or stops) a trial that is not among the best of those that reached the same rung.",
        options=_RUNGS,
        example="asha: {min_steps: 20}",
    ),
    "hyperband": PrunerKind(
        description="ASHA in several brackets, each with a later first rung.",
        options={**_RUNGS, "brackets": _whole("At most this many brackets.", 3, Bounds(low=1, high=10))},
        example="hyperband: {min_steps: 10}",
    ),
    "median": PrunerKind(
        description="Stops a trial whose best value is worse than the median of the others at its step.",
        options=_BEHIND,
    ),
    "percentile": PrunerKind(
        description="Stops a trial whose best value is not among the best part of the others at its step.",
        options={"keep": _number("Percent of the trials that go on.", bounds=Bounds(above=0, high=99)), **_BEHIND},
        example="percentile: {keep: 75}",
    ),
    "plateau": PrunerKind(
        description="Stops a trial whose objective has not risen for a while and that is not among the best.",
        options={
            "patience": _whole("Reports without a gain that are needed.", 10),
            "min_gain": _number("Part of the curve's own range that counts as a gain.", 0.02, Bounds(low=0, high=1)),
            "smooth": _smooth(3),
            "min_steps": _min_steps(20),
            "protect_top": _PROTECT_TOP,
            "metric": _COMPARED,
        },
    ),
    "extrapolate": PrunerKind(
        description="Stops a trial whose curve, as far as it can be foreseen, does not reach the best any more.",
        options={
            "probability": _number(
                "The chance to end better below which it is stopped.", 0.02, Bounds(above=0, high=0.5)
            ),
            "min_steps": _min_steps(10),
            "every": _whole("Steps between two looks.", 5),
            "patience": _whole("Consecutive looks with a low chance that are needed.", 2),
            "top": _whole("The completed trial that must be beaten: 1 is the best.", 1),
            "protect_top": _PROTECT_TOP,
            "metric": _metric("The curve; the objective's if not given."),
        },
    ),
    "eval_decline": PrunerKind(
        description="Completes a trial at its peak when the held-out evaluation falls while the reward still rises.",
        options={
            "patience": _whole("Consecutive evaluations at that low that are needed.", 3),
            "drop": _number("Part of the best evaluation that must be lost.", 0.2, Bounds(low=0, high=1)),
            "smooth": _smooth(3),
            "min_steps": _min_steps(10),
            "metric": _metric("The held-out evaluation; the objective's metric if not given."),
            "reward": _metric("The training reward.", "reward/mean"),
        },
    ),
    "kl_ceiling": PrunerKind(
        description="Stops a trial whose KL to the reference stays above a ceiling.",
        options={
            "above": _number("The ceiling, in nats per token."),
            "patience": _patience(3),
            "metric": _metric("The KL curve.", "kl/actor_ref"),
            "min_steps": _min_steps(1),
        },
        example="kl_ceiling: {above: 0.15}",
    ),
    "kl_slope": PrunerKind(
        description="Stops a trial whose KL to the reference grows too fast.",
        options={
            "above": _number("The steepest slope allowed, in nats per token and step."),
            "window": _whole("Reports that a slope is fitted to.", 8, Bounds(low=2)),
            "patience": _patience(3),
            "metric": _metric("The KL curve.", "kl/actor_ref"),
            "min_steps": _min_steps(10),
        },
        example="kl_slope: {above: 0.01}",
    ),
    "reward_collapse": PrunerKind(
        description="Stops a trial that has lost a good part of the best reward it ever had.",
        options={
            "drop": _number("Part of the best smoothed reward so far that is lost.", bounds=_PART),
            "patience": _patience(5),
            "metric": _metric("The reward curve.", "reward/mean"),
            "smooth": _smooth(3),
            "min_steps": _min_steps(5),
            "protect_top": _PROTECT_TOP,
        },
        example="reward_collapse: {drop: 0.5}",
    ),
    "entropy_collapse": PrunerKind(
        description="Stops a trial whose policy entropy has fallen to a small part of what it began with.",
        options={
            "left": _number("Part of the first entropy that must be left.", 0.1, _PART),
            "patience": _patience(5),
            "metric": _metric("The entropy curve.", "actor/entropy"),
            "smooth": _smooth(3),
            "min_steps": _min_steps(10),
        },
    ),
    "length_blowup": PrunerKind(
        description="Stops a trial whose responses have grown to a multiple of their first length.",
        options={
            "factor": _number("The multiple of the first length that is allowed.", 3, Bounds(above=1)),
            "patience": _patience(5),
            "metric": _metric("The length curve.", "response/length_mean"),
            "smooth": _smooth(3),
            "min_steps": _min_steps(10),
        },
    ),
    "throughput_floor": PrunerKind(
        description="Stops a trial that trains slower than a floor.",
        options={
            "below": _number("The lowest throughput allowed, in tokens per second."),
            "patience": _patience(3),
            "metric": _metric("The throughput curve.", "perf/tokens_per_s"),
            "smooth": _smooth(3),
            "min_steps": _min_steps(5),
        },
        example="throughput_floor: {below: 500}",
    ),
    "not_finite": PrunerKind(
        description="Stops a trial whose metrics are not finite; the trial counts as infeasible.",
        options={"patience": _patience(1)},
    ),
}
"""Name in the space file -> what it takes."""
