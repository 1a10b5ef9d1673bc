"""Between two stages: whether one has reached what it must, and what the next one gets of it. Pure functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev

from autotune.search.objective import series
from autotune.search.ranking import best_of, ranked
from autotune.search.types import Point, Trial
from autotune.spec.configs import complete, start_params
from autotune.spec.criteria import Criterion, Reading, What, Who
from autotune.spec.domains import nearest
from autotune.spec.expression_nodes import ExpressionError
from autotune.spec.types import Carry, CarrySpec, Space, Stage, Start
from autotune.spec.values import FlatConfig, JsonValue

RECENT = 5
"""Reports whose mean counts as the last value, as for constraints: a single noisy step must not decide."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One criterion and what it came to.

    Attributes:
        text: The criterion as it was written.
        holds: Whether the winner meets it.
        numbers: Name in the criterion -> its value; ``None`` = never measured.
    """

    text: str
    holds: bool
    numbers: Mapping[str, float | None]

    def words(self) -> str:
        """The criterion with its numbers."""
        shown = (f"{name} = {'not measured' if n is None else f'{n:.4g}'}" for name, n in self.numbers.items())
        return f"{self.text} {'holds' if self.holds else 'does not hold'} ({', '.join(shown)})"


@dataclass(frozen=True, kw_only=True, slots=True)
class StageVerdict:
    """What a stage has reached.

    Attributes:
        passed: Whether it has a winner that meets every criterion.
        winner: Number of the trial that goes on; the best one even where it misses a criterion.
        checks: The criteria for the winner.
    """

    passed: bool
    winner: int | None
    checks: tuple[Check, ...] = ()

    def words(self, name: str) -> str:
        """The same in one sentence."""
        if self.winner is None:
            return f"stage {name} found nothing: no trial completed within the constraints"
        head = f"stage {name} {'passed' if self.passed else 'failed'} with trial {self.winner}"
        return head + "".join(f"; {check.words()}" for check in self.checks)

    def document(self) -> dict[str, JsonValue]:
        """The same as plain JSON."""
        checks: list[JsonValue] = [
            {"text": check.text, "holds": check.holds, "numbers": dict(check.numbers)} for check in self.checks
        ]
        return {"passed": self.passed, "winner": self.winner, "checks": checks}


@dataclass(frozen=True, kw_only=True, slots=True)
class Handover:
    """What a stage gets from those before it.

    Attributes:
        fixed: Full path -> value, on top of the trainer's own configuration.
        starts: Configurations that it tries first.
        curve: The curve of the winner of the stage before.
    """

    fixed: FlatConfig = field(default_factory=dict)
    starts: tuple[Start, ...] = ()
    curve: Sequence[Point] = ()


def judge_stage(
    stage: Stage, trials: Iterable[Trial], curves: Mapping[int, Sequence[Point]], previous: Sequence[Point]
) -> StageVerdict:
    """Whether a stage has reached what it must.

    The winner is the best trial that meets every criterion; where none does, the best one of all with what it misses.

    Args:
        stage: The stage.
        trials: All its trials.
        curves: Trial number -> curve.
        previous: The curve of the winner of the stage before; empty without one.
    """
    everybody = list(trials)
    objective = stage.space.objective
    best = best_of(everybody, objective)
    if best is None:
        return StageVerdict(passed=False, winner=None)
    default = next((trial for trial in everybody if trial.source == "default"), None)
    sides = {Who.DEFAULT: curves.get(default.number, ()) if default else (), Who.PREVIOUS: previous}
    order = [best, *(trial for trial in ranked(everybody, objective) if trial.number != best.number)]
    verdicts = []
    for trial in order:
        numbers = {**sides, Who.WINNER: curves.get(trial.number, ())}
        checks = tuple(_check(criterion, numbers) for criterion in stage.criteria)
        passed = all(check.holds for check in checks)
        verdicts.append(StageVerdict(passed=passed, winner=trial.number, checks=checks))
        if passed:
            return verdicts[-1]
    return verdicts[0]


def hand_over(
    stage: Stage, winner: int | None, trials: Iterable[Trial], curves: Mapping[int, Sequence[Point]], before: Handover
) -> Handover:
    """What the next stage gets.

    Args:
        stage: The stage that has ended.
        winner: The number of its winner; without one only what it was given itself goes on.
        trials: All its trials.
        curves: Trial number -> curve.
        before: What it was given itself.
    """
    everybody = {trial.number: trial for trial in trials}
    if winner is None:
        return Handover(fixed=before.fixed)
    first, curve = everybody[winner], curves.get(winner, ())
    values = _carried(first.params, stage.carry)
    if stage.carry.how is Carry.FIX:
        return Handover(fixed={**before.fixed, **values}, curve=curve)
    others = (trial for trial in ranked(everybody.values(), stage.space.objective) if trial is not first)
    chosen = [first, *others][: stage.carry.top]
    starts = [Start(label=f"carried-{trial.number}", values=_carried(trial.params, stage.carry)) for trial in chosen]
    return Handover(fixed={**before.fixed, **values}, starts=tuple(starts), curve=curve)


def receive(stage: Stage, base: FlatConfig, given: Handover) -> tuple[Space, FlatConfig]:
    """A stage's space and configuration with what the stages before hand over.

    What the stage fixes itself stays. A fixed value of a parameter that the stage searches is the default there, moved
    into the domain where it lies outside.
    """
    space = stage.space
    fixed: dict[str, JsonValue] = {}
    for path, value in given.fixed.items():
        # Configurations to try first leave the default what it is: it is what they are compared with.
        if path not in base or path in stage.fixed or (given.starts and path in space.search):
            continue
        inside = nearest(space.search[path].domain, value) if path in space.search else value
        fixed[path] = base[path] if inside is None else inside
    base = {**base, **fixed}
    return with_starts(space, base, given.starts), base


def with_starts(space: Space, base: FlatConfig, starts: Sequence[Start]) -> Space:
    """The space with more configurations to try first: behind ``default``, before its other starts.

    One that breaks ``require``, that repeats another one or that the budget has no room for is left out.
    """
    head = tuple(start for start in space.start_from if start.label == "default")
    tail = tuple(start for start in space.start_from if start.label != "default")
    kept: list[Start] = []
    seen: list[FlatConfig] = []
    for start in (*head, *(fitted(space, start) for start in starts), *tail):
        if start.tried:
            kept.append(start)
            continue
        params = start_params(space, base, start)
        config = complete(space, base, params)
        if params in seen or not all(condition.holds(config) for condition in space.require):
            continue
        seen.append(params)
        kept.append(start)
    return dataclasses.replace(space, start_from=tuple(kept[: space.budget.trials]))


def fitted(space: Space, start: Start) -> Start:
    """A start with the values of this space's parameters only, each moved into its domain where it lies outside."""
    values = {
        path: nearest(space.search[path].domain, value) for path, value in start.values.items() if path in space.search
    }
    return dataclasses.replace(start, values={path: value for path, value in values.items() if value is not None})


def reading_of(reading: Reading, curve: Sequence[Point]) -> float | None:
    """The number that a criterion reads of a curve; ``None`` where the metric was never reported, or not finite."""
    values = [value for _, value in series(curve, reading.metric)]
    finite = [value for value in values if value is not None]
    if not finite or values[-1] is None:
        return None
    match reading.what:
        case What.LAST:
            return fmean(finite[-RECENT:])
        case What.MIN:
            return min(finite)
        case What.MAX:
            return max(finite)
        case What.MEAN:
            return fmean(finite)
        case What.STD:
            return pstdev(finite[len(finite) // 2 :])


def _check(criterion: Criterion, curves: Mapping[Who, Sequence[Point]]) -> Check:
    numbers = {name: reading_of(reading, curves[reading.who]) for name, reading in criterion.readings.items()}
    try:
        holds = criterion.expression.evaluate({name: n for name, n in numbers.items() if n is not None}) is True
    except ExpressionError:
        holds = False
    return Check(text=criterion.text, holds=holds, numbers=numbers)


def _carried(params: FlatConfig, carry: CarrySpec) -> FlatConfig:
    return {path: _scaled(value, carry.scale.get(path)) for path, value in params.items() if path not in carry.drop}


def _scaled(value: JsonValue, factor: float | None) -> JsonValue:
    if factor is None or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return round(value * factor) if isinstance(value, int) else value * factor
