"""Stops a trial whose curve, as far as it can be foreseen, does not reach the best any more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import islice
from typing import ClassVar

import numpy as np

from autotune.search.curves import Curve
from autotune.search.extrapolation import Reports, believe, fit
from autotune.search.extrapolation.learned import Finished, lesson
from autotune.search.extrapolation.target import Outlook, outlook
from autotune.search.objective import series
from autotune.search.pareto import Vector
from autotune.search.pruners.base import Sight
from autotune.search.pruners.standing import about, protected, vector
from autotune.search.ranking import answer, is_answer
from autotune.search.types import Point, Reason
from autotune.spec.types import Direction, Objective, Reduce

LESSONS = 64
"""Finished curves that are learned from, the latest ones."""
FEWEST = 4
"""Finite reports without which nothing is foreseen."""
_FLIPPED = {Reduce.MAX: Reduce.MIN, Reduce.MIN: Reduce.MAX}


@dataclass(frozen=True, kw_only=True, slots=True)
class Foresight:
    """What is foreseen of a trial at one look.

    Attributes:
        views: What each objective may become.
        chance: To beat the completed trial that counts.
        against: Its number.
    """

    views: tuple[Outlook, ...]
    chance: float
    against: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Extrapolate:
    """Stops a trial whose chance to end better than the ``top``-th best completed one is below ``probability``.

    The chance comes from a Bayesian ensemble of parametric learning curves (Domhan et al. 2015; see
    ``autotune.search.extrapolation``), fitted in closed form to the reports so far, with what the job's finished
    curves teach as the prior. It is the chance of the objective itself: its reduction, its smoothing and the noise of
    the last reports are part of it. What cannot be foreseen yet has a chance well above 0 and goes on.

    With several objectives a trial goes on as long as it may stay undominated: its chance against a completed trial is
    the chance to beat it in at least one of them, the objectives taken as independent.

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

    probability: float = 0.02
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
        lessons = [_lessons(one, sight) for one in objective.each]
        seen: list[Foresight] = []
        for step in reversed(looks[-self.patience :]):
            one = self._foresee(objective, sight, step, lessons, finals)
            if one is None or one.chance >= self.probability:
                return None
            seen.append(one)
        if protected(sight, self.protect_top, objective):
            return None
        return self._reason(objective, sight, seen, finals)

    def _foresee(
        self,
        objective: Objective,
        sight: Sight,
        step: int,
        lessons: Sequence[Sequence[Finished]],
        finals: Mapping[int, Vector],
    ) -> Foresight | None:
        """What is foreseen at a step; ``None`` where nothing can be."""
        views: list[Outlook] = []
        for one, taught in zip(objective.each, lessons, strict=True):
            view = foresee(one, sight.curve, step, sight.total_steps, taught)
            if view is None:
                return None
            views.append(view)
        hardest = list(finals)
        if not objective.also:  # a better end is harder to beat, whatever is foreseen
            hardest = nsmallest(self.top, finals, key=lambda one: (-finals[one][0], one))
        chances: dict[int, float] = {}
        for number in hardest:
            nowhere = math.prod(1.0 - view.above(value) for view, value in zip(views, finals[number], strict=True))
            chances[number] = 1.0 - nowhere
        number = sorted(chances, key=lambda one: (chances[one], [-value for value in finals[one]], one))[self.top - 1]
        return Foresight(views=tuple(views), chance=chances[number], against=number)

    def _looks(self, curve: Sequence[Point], metric: str) -> list[int]:
        """The steps at which the rule looks: the first finite report in each ``every`` steps."""
        steps = [step for step, value in series(curve, metric) if value is not None]
        firsts = [
            step for before, step in zip([-1, *steps], steps, strict=False) if step // self.every > before // self.every
        ]
        return [step for step in firsts if step >= self.min_steps]

    def _reason(
        self, objective: Objective, sight: Sight, seen: Sequence[Foresight], finals: Mapping[int, Vector]
    ) -> Reason:
        last = seen[0]
        numbers = {
            "chance": last.chance,
            "chance_before": seen[-1].chance,
            "probability": self.probability,
            "incumbent": float(last.against),
            "completed": float(len(finals)),
            "patience": float(self.patience),
            "step": float(sight.step),
        }
        expected, bars = [], []
        for one, view, final in zip(objective.each, last.views, finals[last.against], strict=True):
            value = series(sight.curve, one.metric, sight.step)[-1][1] or 0.0
            end, bar = view.central, one.sign * final
            expected.append(f"{one.metric} {value:.4g} is expected to end at {one.sign * end.mean:.4g} +-{end.sd:.2g}")
            bars.append(f"{bar:.4g}")
            suffix = f":{one.metric}" if objective.also else ""
            numbers |= {
                f"value{suffix}": value,
                f"expected{suffix}": one.sign * end.mean,
                f"expected_sd{suffix}": end.sd,
                f"threshold{suffix}": bar,
            }
        place = "the best" if self.top == 1 else f"number {self.top}"
        who = f"trial {last.against}, {place} of {len(finals)} completed"
        if objective.also:
            who = f"trial {last.against} of {len(finals)} completed, in one of them"
        return Reason(
            pruner=self.name,
            text=(
                f"at step {sight.step} {', '.join(expected)}: its chance to beat {', '.join(bars)} ({who}) "
                f"is {last.chance:.2g}, below {self.probability:g} at {self.patience} looks in a row"
            ),
            numbers=numbers,
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
    turn = objective.sign
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


def _finals(objective: Objective, sight: Sight) -> dict[int, Vector]:
    """The final objectives of the completed trials whose constraints hold, turned so that more is better."""
    found: dict[int, Vector] = {}
    for number, trial in sight.trials.items():
        if not is_answer(trial):
            continue
        own = answer(objective, trial) if objective.metric == sight.objective.metric else None
        final = own or vector(objective, sight.peers.get(number, ()))
        if final is not None and all(math.isfinite(value) for value in final):
            found[number] = final
    return found


def _lessons(objective: Objective, sight: Sight) -> list[Finished]:
    """What the latest finished curves of full length teach, each looked at once."""
    turn, total = objective.sign, sight.total_steps
    latest = (sight.peers[number] for number in sorted(sight.peers, reverse=True))
    full = list(islice((curve for curve in latest if curve and curve[-1].step >= total), LESSONS))
    found: list[Finished] = []
    for curve in reversed(full):

        def learn(curve: Sequence[Point] = curve) -> Finished | None:
            finite = [(step, value) for step, value in series(curve, objective.metric) if value is not None]
            return lesson(_reports(finite, turn, total)) if len(finite) >= FEWEST else None

        key = ("lesson", objective.metric, turn, total)
        learned = curve.once(curve.last_step, key, learn) if isinstance(curve, Curve) else learn()
        if learned is not None:
            found.append(learned)
    return found
