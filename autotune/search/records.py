"""The events of a study: what happened to a trial, in words and in data."""

from __future__ import annotations

from autotune.search.population import Generations
from autotune.search.types import Attempt, Event, Outcome, Trial
from autotune.spec.values import JsonValue
from autotune.states import TrialState


def event(trial: Trial, now: float, kind: str, text: str, **data: JsonValue) -> Event:
    """Something that happened to a trial."""
    return Event(at=now, kind=kind, text=text, trial=trial.number, data=data)


def start_text(trial: Trial, number: int) -> str:
    """The start of an attempt in one sentence; the trial as it was before."""
    if trial.state is TrialState.PAUSED and trial.reason is not None:
        rung = trial.reason.numbers.get("rung", trial.last_step)
        how = "went on" if trial.reason.pruner == Generations.name else "was promoted"
        return f"trial {trial.number} {how} from rung {rung:g} and started attempt {number}"
    return f"trial {trial.number} started" if number == 1 else f"trial {trial.number} started attempt {number}"


def end_text(attempt: Attempt, outcome: Outcome) -> str:
    """The end of an attempt in one sentence."""
    what = f": {outcome.message}" if outcome.message else ""
    return f"attempt {attempt.number} of trial {attempt.trial} ended ({outcome.kind}) at step {outcome.last_step}{what}"
