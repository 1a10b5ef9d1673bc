"""Advice on the trials of a study, from its stored curves."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.search.advice import Advice, Case, advise
from autotune.search.types import Point, Trial
from autotune.service.spaces import ResolvedSpace
from autotune.store.values import Curve
from autotune.views import AdviceView, ChangeView


def diagnose(resolved: ResolvedSpace, trials: Sequence[Trial], curves: Sequence[Curve]) -> list[AdviceView]:
    """What the rules find, trial by trial, the most urgent first.

    Args:
        resolved: The space of the study.
        trials: Those to look at.
        curves: All metrics of these trials, not thinned.
    """
    objective, by_number = resolved.space.objective, {curve.trial: curve for curve in curves}
    found: list[AdviceView] = []
    for trial in trials:
        curve = by_number.get(trial.number)
        if curve is None:
            continue
        case = Case(
            config=trial.config,
            curve=points_of(curve),
            metric=objective.metric,
            direction=objective.direction,
            total_steps=resolved.steps,
        )
        found += [_view(trial.number, advice) for advice in advise(case)]
    return found


def points_of(curve: Curve) -> list[Point]:
    """Columns as points; a metric that was not reported at a step looks like one that was not finite there."""
    return [
        Point(step=step, time=0.0, metrics={name: values[place] for name, values in curve.metrics.items()})
        for place, step in enumerate(curve.steps)
    ]


def _view(trial: int, advice: Advice) -> AdviceView:
    return AdviceView(
        trial=trial,
        rule=advice.rule,
        finding=advice.finding,
        numbers=dict(advice.numbers),
        changes=[ChangeView(path=change.path, before=change.before, after=change.after) for change in advice.changes],
        source=advice.source,
    )
