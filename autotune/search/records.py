"""The events of a study: what happened to a trial, in words and in data."""

from __future__ import annotations

from autotune.search.types import Attempt, Event, Outcome, Trial
from autotune.spec.values import JsonValue


def event(trial: Trial, now: float, kind: str, text: str, **data: JsonValue) -> Event:
    """Something that happened to a trial."""
    return Event(at=now, kind=kind, text=text, trial=trial.number, data=data)


def end_text(attempt: Attempt, outcome: Outcome) -> str:
    """The end of an attempt in one sentence."""
    what = f": {outcome.message}" if outcome.message else ""
    return f"attempt {attempt.number} of trial {attempt.trial} ended ({outcome.kind}) at step {outcome.last_step}{what}"
