"""Recorded training runs as curves for the simulator: every configuration plays the recorded run that lies nearest.

A bank holds finitely many runs, a sampler proposes anything. Nearest is meant on the scale of the search space: each
parameter is put between 0 and 1 on its own scale (a listed value differs or does not), its squared differences are
divided by their mean over the bank, so that every parameter weighs the same on average, and multiplied by its weight.
The answer depends on the configuration alone, never on who asks or what was asked before, so searches can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import TypeAlias

from autotune.execution.simulated import CurveItem, Failure
from autotune.search.types import EndKind, Metrics
from autotune.spec.domains import describe_domain, same
from autotune.spec.types import Choice, Domain
from autotune.spec.values import FlatConfig, JsonValue

Place: TypeAlias = float | int
"""A real number for a range, a whole one for a list of values."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedRun:
    """One training run that really happened.

    Attributes:
        name: Names it in its bank.
        params: The values of the searched parameters.
        steps: Seconds and metrics of each training step, from step 1 on.
        end: How it ended.
        message: What it said when it failed.
    """

    name: str
    params: FlatConfig
    steps: Sequence[tuple[float, Metrics]]
    end: EndKind = EndKind.FINISHED
    message: str = ""

    def items(self) -> Iterator[CurveItem]:
        """The run as the simulator plays it: its steps, then the failure that ended it, if one did."""
        yield from self.steps
        if self.end is not EndKind.FINISHED:
            yield Failure(kind=self.end, seconds=0.0, message=self.message)


class Replay:
    """A bank of recorded runs as a curve for `simulate`.

    Args:
        runs: The runs; some may share their parameters and differ in their seeds.
        domains: The searched parameters, by path, with the space that the runs were drawn from.
        weights: Parameter -> how much its differences count; 1 where nothing is said.

    Raises:
        ValueError: If there are no runs, or one lacks a parameter.
    """

    def __init__(
        self, runs: Sequence[RecordedRun], domains: Mapping[str, Domain], weights: Mapping[str, float] | None = None
    ) -> None:
        if not runs:
            raise ValueError("got no recorded runs; at least one is needed.")
        missing = sorted({path for run in runs for path in domains if path not in run.params})
        if missing:
            raise ValueError(f"recorded runs lack the parameter {missing[0]!r}, which is searched.")
        self._domains = domains
        self._groups: list[tuple[tuple[Place, ...], list[RecordedRun]]] = []
        for run in runs:
            place = self._place(run.params)
            group = next((members for at, members in self._groups if at == place), None)
            if group is None:
                self._groups.append((place, [run]))
            else:
                group.append(run)
        self._factors = self._balanced(weights or {})

    def nearest(self, config: FlatConfig) -> Sequence[RecordedRun]:
        """The recorded runs, one per seed, of the configuration that lies nearest; the earlier one of equals."""
        place = self._place(config)
        return min(self._groups, key=lambda group: self._distance(place, group[0]))[1]

    def curve(self, config: FlatConfig, seed: int) -> Iterator[CurveItem]:
        """The steps of a training run; a trial with another number may play another seed of the same configuration."""
        runs = self.nearest(config)
        return runs[seed % len(runs)].items()

    def _place(self, config: FlatConfig) -> tuple[Place, ...]:
        return tuple(place(domain, config[path]) for path, domain in self._domains.items())

    def _balanced(self, weights: Mapping[str, float]) -> list[float]:
        factors = []
        for axis, path in enumerate(self._domains):
            pairs = combinations([at[axis] for at, _ in self._groups], 2)
            spread = fmean([_squared(left, right) for left, right in pairs] or [0.0])
            factors.append(weights.get(path, 1.0) / spread if spread > 0 else 0.0)
        return factors

    def _distance(self, left: Sequence[Place], right: Sequence[Place]) -> float:
        return sum(f * _squared(a, b) for f, a, b in zip(self._factors, left, right, strict=True))


def place(domain: Domain, value: JsonValue) -> Place:
    """Where a value lies on its domain's own scale: from 0.0 to 1.0 in a range; its place in a list of values.

    Raises:
        ValueError: If the domain has no such value.
    """
    if isinstance(domain, Choice):
        index = next((at for at, option in enumerate(domain.options) if same(option, value)), None)
        if index is None:
            raise ValueError(f"got {value!r}, must be {describe_domain(domain)}.")
        return index
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"got {value!r}, must be a number from {describe_domain(domain)}.")
    if domain.high == domain.low:
        return 0.0
    if domain.log:
        return (math.log(value) - math.log(domain.low)) / (math.log(domain.high) - math.log(domain.low))
    return float((value - domain.low) / (domain.high - domain.low))


def _squared(left: Place, right: Place) -> float:
    if isinstance(left, float):
        return (left - right) ** 2
    return float(left != right)
