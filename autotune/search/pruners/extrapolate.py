"""Stops a trial whose curve, as far as it can be foreseen, does not reach the best any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from autotune.search.curves import Curve
from autotune.search.extrapolation import Reports, believe, fit
from autotune.search.extrapolation.learned import Finished, lesson
from autotune.search.extrapolation.target import Outlook, outlook
from autotune.search.objective import series
from autotune.search.pruners.base import Sight
from autotune.search.pruners.standing import about, protected, score, sign
from autotune.search.ranking import is_answer
from autotune.search.types import Point, Reason
from autotune.spec.types import Direction, Objective, Reduce

LESSONS = 64
"""Finished curves that are learned from, the latest ones."""
FEWEST = 4
"""Finite reports without which nothing is foreseen."""
_FLIPPED = {Reduce.MAX: Reduce.MIN, Reduce.MIN: Reduce.MAX}


@dataclass(frozen=True, kw_only=True, slots=True)
class Extrapolate:
    """Stops a trial whose chance to end better than the ``top``-th best completed one is below ``probability``.

    The chance comes from a Bayesian ensemble of parametric learning curves (Domhan et al. 2015; see
    ``autotune.search.extrapolation``), fitted in closed form to the reports so far, with what the job's finished
    curves teach as the prior. It is the chance of the objective itself: its reduction, its smoothing and the noise of
    the last reports are part of it. What cannot be foreseen yet has a chance well above 0 and goes on.

    Looks at the first report in each ``every`` steps; the chance must be low at ``patience`` looks in a row. What is
    among the best ``protect_top`` at its step, the default configuration and a finalist's run are never stopped.

    Attributes:
        probability: The chance below which it is not worth going on, 0 to 1.
        min_steps: Steps before this one are forgiven.
        every: Steps between two looks.
        patience: Consecutive looks with a low chance that are needed.
        top: The completed trial that must be beaten: 1 = the best, 2 = the second best.
        protect_top: What is among this many best at its step is never stopped.
        metric: The curve; the objective's own if ``None``.
    """

    name: ClassVar[str] = "extrapolate"

    probability: float = 0.05
    min_steps: int = 10
    every: int = 5
    patience: int = 2
    top: int = 1
    protect_top: int = 3
    metric: str | None = None

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to stop the trial, or ``None`` to let it go on."""
        if not sight.compared or not self.min_steps <= sight.step < sight.total_steps:
            return None
        objective = about(sight.objective, self.metric)
        looks = self._looks(sight.curve, objective.metric)
        if len(looks) < self.patience or looks[-1] != sight.step:
            return None
        finals = _finals(objective, sight)
        if len(finals) < self.top:
            return None
        number = sorted(finals, key=lambda one: (-finals[one], one))[self.top - 1]
        lessons = _lessons(objective, sight)
        seen: list[tuple[Outlook, float]] = []
        for step in reversed(looks[-self.patience :]):
            view = foresee(objective, sight.curve, step, sight.total_steps, lessons)
            chance = 1.0 if view is None else view.above(finals[number])
            if view is None or chance >= self.probability:
                return None
            seen.append((view, chance))
        if protected(sight, self.protect_top, objective):
            return None
        return self._reason(objective, sight, seen, number, finals)

    def _looks(self, curve: Sequence[Point], metric: str) -> list[int]:
        """The steps at which the rule looks: the first finite report in each ``every`` steps."""
        steps = [step for step, value in series(curve, metric) if value is not None]
        firsts = [
            step for before, step in zip([-1, *steps], steps, strict=False) if step // self.every > before // self.every
        ]
        return [step for step in firsts if step >= self.min_steps]

    def _reason(
        self,
        objective: Objective,
        sight: Sight,
        seen: Sequence[tuple[Outlook, float]],
        number: int,
        finals: dict[int, float],
    ) -> Reason:
        turn, (view, chance) = sign(objective), seen[0]
        end, bar = view.central, turn * finals[number]
        value = series(sight.curve, objective.metric)[-1][1] or 0.0
        place = "the best" if self.top == 1 else f"number {self.top}"
        return Reason(
            pruner=self.name,
            text=(
                f"{objective.metric} {value:.4g} at step {sight.step} is expected to end at {turn * end.mean:.4g} "
                f"+-{end.sd:.2g}: its chance to beat {bar:.4g} (trial {number}, {place} of {len(finals)} completed) "
                f"is {chance:.2g}, below {self.probability:g} at {self.patience} looks in a row"
            ),
            numbers={
                "chance": chance,
                "chance_before": seen[-1][1],
                "probability": self.probability,
                "value": value,
                "expected": turn * end.mean,
                "expected_sd": end.sd,
                "threshold": bar,
                "incumbent": float(number),
                "completed": float(len(finals)),
                "patience": float(self.patience),
                "step": float(sight.step),
            },
        )


def foresee(
    objective: Objective, curve: Sequence[Point], step: int, total_steps: int, lessons: Sequence[Finished]
) -> Outlook | None:
    """What the objective of a curve may become, as seen at a step.

    Args:
        objective: Its metric, reduction, smoothing and direction.
        curve: The points of the trial.
        step: What comes later is not looked at.
        total_steps: Training steps of a full trial.
        lessons: Of the finished curves.

    Returns:
        Its distribution, with the sign turned so that more is better; ``None`` where the last report was not finite,
        there are fewer than ``FEWEST`` finite ones, or none will come.
    """
    reported = series(curve, objective.metric, step)
    finite = [(at, value) for at, value in reported if value is not None]
    if len(finite) < FEWEST or reported[-1][1] is None:
        return None
    coming = _coming([at for at, _ in finite], total_steps)
    if not coming:
        return None
    turn = sign(objective)
    reports = _reports(finite, turn, total_steps)
    upright = objective
    if turn < 0:
        flipped = _FLIPPED.get(objective.reduce, objective.reduce)
        upright = replace(objective, reduce=flipped, direction=Direction.MAXIMIZE)
    return outlook(upright, reports, fit(reports, believe(reports, lessons)), np.array(coming) / total_steps)


def _reports(finite: Sequence[tuple[int, float]], turn: int, total_steps: int) -> Reports:
    return Reports(
        u=np.array([step / total_steps for step, _ in finite]), y=np.array([turn * value for _, value in finite])
    )


def _coming(steps: Sequence[int], total_steps: int) -> list[float]:
    """The steps of the reports to come, as far apart as the last ones were."""
    gaps = np.diff(steps[-9:])
    gap = float(np.median(gaps))
    count = round((total_steps - steps[-1]) / gap)
    return [min(steps[-1] + gap * (place + 1), float(total_steps)) for place in range(count)]


def _finals(objective: Objective, sight: Sight) -> dict[int, float]:
    """The final objectives of the completed trials whose constraints hold, turned so that more is better."""
    own = objective.metric == sight.objective.metric
    found: dict[int, float] = {}
    for number, trial in sight.trials.items():
        if is_answer(trial):
            value = trial.value if own else None
            final = sign(objective) * value if value is not None else score(objective, sight.peers.get(number, ()))
            if final is not None and np.isfinite(final):
                found[number] = final
    return found


def _lessons(objective: Objective, sight: Sight) -> list[Finished]:
    """What the latest finished curves of full length teach, each looked at once."""
    full = [number for number, curve in sight.peers.items() if curve and curve[-1].step >= sight.total_steps]
    turn, total = sign(objective), sight.total_steps
    found: list[Finished] = []
    for number in sorted(full)[-LESSONS:]:
        curve = sight.peers[number]

        def learn(curve: Sequence[Point] = curve) -> Finished | None:
            finite = [(step, value) for step, value in series(curve, objective.metric) if value is not None]
            return lesson(_reports(finite, turn, total)) if len(finite) >= FEWEST else None

        key = ("lesson", objective.metric, turn, total)
        learned = curve.once(curve.last_step, key, learn) if isinstance(curve, Curve) else learn()
        if learned is not None:
            found.append(learned)
    return found
