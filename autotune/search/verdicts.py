"""What a trial becomes when it is stopped, finishes or fails: pure functions from a trial and its curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autotune.search.closing import Closing
from autotune.search.objective import objective_value, objective_values, series, violations
from autotune.search.pruners import EvalDecline, NotFinite
from autotune.search.roster import Roster
from autotune.search.types import INFEASIBLE_KINDS, EndKind, Outcome, Point, Reason, Trial
from autotune.spec.types import Space
from autotune.states import TrialState

NO_OBJECTIVE = "Let the trainer evaluate at least once, or choose a metric that it reports."
"""The hint to a trial that never reported its objective, by which such a trial is known."""
ENOUGH_WITHOUT = 3
"""Whole trials without an objective after which a study gives up, if there are no others."""
ENOUGH_NOT_FINITE = 5
"""Trials whose objective was never finite after which a study gives up, if nobody's ever was."""


def hopeless(space: Space, trials: Roster, curves: Mapping[int, Sequence[Point]]) -> Closing | None:
    """Why more trials will not get an objective either; ``None`` where one has it, or too few have tried.

    Whole trials that never report it point at the space, however few; one that is never finite may still be the fault
    of single configurations, so more have to show it, and none the contrary.
    """
    if trials.count(TrialState.COMPLETED):
        return None
    metrics = [one.metric for one in space.objective.each]
    failed = trials.having(TrialState.FAILED)
    if len(failed) >= ENOUGH_WITHOUT and all(trial.error_hint == NO_OBJECTIVE for trial in failed):
        others = (curve for number, curve in curves.items() if trials[number].state is not TrialState.FAILED)
        if not any(all(series(curve, metric) for metric in metrics) for curve in others):
            return Closing.NO_OBJECTIVE
    broken = [trial for trial in trials.having(TrialState.INFEASIBLE) if trial.error_kind is EndKind.NON_FINITE]
    if len(broken) < ENOUGH_NOT_FINITE:
        return None
    read = [series(curve, metric) for curve in curves.values() for metric in metrics]
    if any(value is not None for values in read for _, value in values):
        return None
    seen = sum(any(series(curves.get(trial.number, ()), metric) for metric in metrics) for trial in broken)
    return Closing.NOT_FINITE if seen >= ENOUGH_NOT_FINITE else None


def state_for(reason: Reason) -> TrialState:
    """The state of a trial that a pruner has stopped.

    A loss that is not finite is the configuration's own fault, not a curve that lost a comparison.
    """
    return TrialState.INFEASIBLE if reason.pruner == NotFinite.name else TrialState.PRUNED


def stopped(space: Space, trial: Trial, curve: Sequence[Point], reason: Reason, now: float) -> tuple[Trial, str]:
    """The trial after a pruner has stopped it, and what happened in one sentence."""
    if reason.pruner == EvalDecline.name and (peaked := _at_its_peak(space, trial, curve, reason, now)) is not None:
        text = f"trial {trial.number} completed at its peak, step {reason.numbers['best_step']:g}: {reason.text}"
        return peaked, text
    state = state_for(reason)
    infeasible = state is TrialState.INFEASIBLE
    ended = replace(
        trial,
        state=state,
        reason=reason,
        error_kind=EndKind.NON_FINITE if infeasible else None,
        error_message=reason.text if infeasible else "",
        violations=violations(space.constraints, curve),
        ended_at=now,
    )
    return ended, f"trial {trial.number} was stopped by {reason.pruner}: {reason.text}"


def paused(trial: Trial, reason: Reason) -> tuple[Trial, str]:
    """The trial after a pruner has paused it, and what happened in one sentence."""
    text = f"trial {trial.number} was paused by {reason.pruner}: {reason.text}"
    return replace(trial, state=TrialState.PAUSED, reason=reason), text


def unpromoted(
    space: Space, trial: Trial, curve: Sequence[Point], reason: Reason | None, now: float
) -> tuple[Trial, str]:
    """The trial, still to be moved, when nothing can launch it again any more, and what happened in one sentence."""
    why = reason.text if reason else "nothing can promote it any more"
    broken = violations(space.constraints, curve)
    ended = replace(trial, reason=reason, violations=broken, ended_at=now)
    return ended, f"trial {trial.number} was not promoted: {why}"


def _at_its_peak(space: Space, trial: Trial, curve: Sequence[Point], reason: Reason, now: float) -> Trial | None:
    """The trial completed with the objective that it had at the step from which its evaluation fell.

    It is the objective's own reduction up to that step, not the single best evaluation: the highest of many noisy
    values would flatter the trial. ``None`` if the objective had no finite value by then.
    """
    peak = int(reason.numbers["best_step"])
    values = objective_values(space.objective, curve, until=peak)
    if values is None:
        return None
    broken = violations(space.constraints, curve, until=peak)
    done = _valued(space, trial, values)
    return replace(done, state=TrialState.COMPLETED, violations=broken, reason=reason, ended_at=now)


def _valued(space: Space, trial: Trial, values: Mapping[str, float]) -> Trial:
    """The trial with its objectives."""
    return replace(trial, value=values[space.objective.metric], values=values if space.objective.also else {})


def finished(space: Space, trial: Trial, curve: Sequence[Point], now: float) -> tuple[Trial, str]:
    """The trial after its last step, and what happened in one sentence.

    Without a finite objective it is not completed: infeasible if the metric stopped being finite, failed if the
    metric never appeared.
    """
    values = objective_values(space.objective, curve)
    without = [one.metric for one in space.objective.each if objective_value(one, curve) is None]
    metric = without[0] if without else space.objective.metric
    if values is None and any(metric in point.metrics for point in curve):
        outcome = Outcome(kind=EndKind.NON_FINITE, message=f"the last {metric} was not finite")
        return failed(space, trial, curve, outcome, now)
    if values is None:
        outcome = Outcome(
            kind=EndKind.UNKNOWN,
            message=f"the trial finished without ever reporting its objective {metric}",
            hint=NO_OBJECTIVE,
        )
        return failed(space, trial, curve, outcome, now)
    broken = violations(space.constraints, curve)
    done = replace(_valued(space, trial, values), state=TrialState.COMPLETED, violations=broken, ended_at=now)
    missed = "".join(f"; {text} does not hold" for text, violation in broken.items() if violation > 0)
    reached = ", ".join(f"{metric} {value:.4g}" for metric, value in values.items())
    return done, f"trial {trial.number} completed with {reached}{missed}"


def failed(space: Space, trial: Trial, curve: Sequence[Point], outcome: Outcome, now: float) -> tuple[Trial, str]:
    """The trial after an end that no further attempt can mend, and what happened in one sentence."""
    state = TrialState.INFEASIBLE if outcome.kind in INFEASIBLE_KINDS else TrialState.FAILED
    ended = replace(
        trial,
        state=state,
        error_kind=outcome.kind,
        error_message=outcome.message,
        error_hint=outcome.hint,
        violations=violations(space.constraints, curve),
        ended_at=now,
    )
    return ended, f"trial {trial.number} is {state}: {outcome.message or outcome.kind}"
