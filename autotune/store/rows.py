"""Trials, points and events as rows, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row

from autotune.search.types import Attempt, EndKind, Event, Point, Reason, Trial
from autotune.spec.values import JsonValue
from autotune.states import TrialState
from autotune.store import clean
from autotune.store.values import AttemptRecord, EventRecord


def fixed_values(trial: Trial) -> dict[str, object]:
    """The columns that say which configuration a trial is; they hardly ever change."""
    return {"source": trial.source, "params": clean.plain(trial.params), "config": clean.plain(trial.config)}


def moving_values(trial: Trial, metrics: Mapping[str, float | None]) -> dict[str, object]:
    """The columns that change while a trial runs."""
    return {
        "state": str(trial.state),
        "attempt": trial.attempt.number if trial.attempt else None,
        "attempt_token": trial.attempt.token if trial.attempt else None,
        "last_step": trial.last_step,
        "metrics": metrics,
        "value": clean.number(trial.value),
        "objectives": clean.numbers(trial.values) or None,
        "violations": clean.numbers(trial.violations),
        "reason": _reason_json(trial.reason),
        "error_kind": None if trial.error_kind is None else str(trial.error_kind),
        "error_message": clean.text(trial.error_message),
        "error_hint": clean.text(trial.error_hint),
        "cost_s": trial.cost_s,
        "created_at": trial.created_at,
        "started_at": trial.started_at,
        "ended_at": trial.ended_at,
    }


def read_trial(row: Row[Any]) -> Trial:
    """A trial from its row."""
    attempt = None
    if row.attempt is not None:
        attempt = Attempt(trial=row.number, number=row.attempt, token=row.attempt_token)
    return Trial(
        number=row.number,
        state=TrialState(row.state),
        source=row.source,
        params=row.params or {},
        config=row.config or {},
        attempt=attempt,
        last_step=row.last_step,
        value=row.value,
        values=row.objectives or {},
        # A violation that was not finite is stored as null: the constraint does not hold.
        violations={name: math.inf if value is None else value for name, value in row.violations.items()},
        reason=_read_reason(row.reason),
        error_kind=None if row.error_kind is None else EndKind(row.error_kind),
        error_message=row.error_message,
        error_hint=row.error_hint,
        cost_s=row.cost_s,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def read_point(row: Row[*tuple[Any, ...]]) -> Point:
    """A point from its row."""
    return Point(step=row.step, time=row.time, metrics=row.metrics)


def read_event(row: Row[Any]) -> EventRecord:
    """An event from its row."""
    event = Event(at=row.at, kind=row.kind, text=row.text, trial=row.trial, data=row.data)
    return EventRecord(id=row.id, job=row.job, event=event, stage=row.stage)


def read_attempt(row: Row[Any], trial: int) -> AttemptRecord:
    """An attempt of trial number ``trial`` from its row."""
    return AttemptRecord(
        trial=trial,
        number=row.number,
        token=row.token,
        started_at=row.started_at,
        ended_at=row.ended_at,
        outcome=None if row.outcome is None else EndKind(row.outcome),
        message=row.message,
        hint=row.hint,
        last_step=row.last_step,
        cost_s=row.cost_s,
    )


def outcome(trial: Trial) -> EndKind | None:
    """How a trial's present attempt ended, as far as the trial tells; ``None`` while it runs."""
    if trial.state is TrialState.RUNNING:
        return None
    if trial.error_kind is not None:
        return trial.error_kind
    if trial.state is TrialState.COMPLETED:
        return EndKind.FINISHED
    if trial.state in {TrialState.PRUNED, TrialState.PAUSED, TrialState.CANCELLED}:
        return EndKind.STOPPED
    return EndKind.UNKNOWN


def _reason_json(reason: Reason | None) -> dict[str, JsonValue] | None:
    if reason is None:
        return None
    return {"pruner": reason.pruner, "text": clean.text(reason.text), "numbers": clean.plain(reason.numbers)}


def _read_reason(value: Mapping[str, Any] | None) -> Reason | None:
    if value is None:
        return None
    numbers = {name: math.nan if number is None else number for name, number in value["numbers"].items()}
    return Reason(pruner=value["pruner"], text=value["text"], numbers=numbers)
