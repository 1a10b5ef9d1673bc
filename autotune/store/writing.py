"""The rows that hang on a trial: its attempts and the points of its curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Table, func, select, update

from autotune.search.types import Attempt, Point, Trial
from autotune.spec.values import FlatConfig
from autotune.store import clean, hot, rows
from autotune.store.models import attempts, points

_REPLACED = ("time", "metrics")
"""What a point that is written again replaces."""


@dataclass(kw_only=True, slots=True)
class Known:
    """What a book remembers of a trial so that a save need not read it again.

    Attributes:
        id: The trial's key.
        metrics: The last reported value of each metric.
        attempt: Number of the attempt whose row this book has written; 0 before the first.
        spent_before: Seconds of all attempts before that one.
    """

    id: int
    source: str
    params: FlatConfig
    config: FlatConfig
    metrics: dict[str, float | None]
    attempt: int = 0
    spent_before: float = 0.0

    def fits(self, trial: Trial) -> bool:
        """Whether the stored row still says which configuration this trial is."""
        return (self.source, self.params, self.config) == (trial.source, trial.params, trial.config)


def save_attempt(connection: Connection, trial: Trial, known: Known, at: float | None) -> None:
    """Writes the trial's present attempt; the first time it also closes earlier ones that were left open.

    Args:
        connection: An open transaction.
        trial: The trial as it is now.
        known: What the book remembers of it; its attempt is brought up to date.
        at: When this happened, epoch seconds, as far as the caller knows.
    """
    if trial.attempt is None:
        return
    number = trial.attempt.number
    new = known.attempt != number
    if new:
        earlier = (attempts.c.trial == known.id, attempts.c.number < number)
        known.spent_before = connection.execute(select(func.sum(attempts.c.cost_s)).where(*earlier)).scalar() or 0.0
        left_open = update(attempts).where(*earlier, attempts.c.ended_at.is_(None))
        connection.execute(left_open.values(ended_at=at or trial.created_at, outcome="unknown"))
        known.attempt = number
    moving = _moving(trial, trial.attempt, known, at)
    if new:
        started = at if at is not None else trial.started_at
        fixed = {"trial": known.id, "number": number, "started_at": started}
        _upsert(connection, attempts, [fixed | moving], tuple(moving))
    else:
        row = {hot.KEY: known.id, hot.NUMBER: number}
        connection.execute(hot.update_attempt(frozenset(moving)), {**moving, **row})


def save_step(
    connection: Connection, trial: Trial, known: Known, point: Point, metrics: dict[str, float | None]
) -> bool:
    """Writes a running trial, its attempt and one point of its curve in one statement, where that can be done.

    It can on PostgreSQL, if the book has written this attempt before.

    Args:
        connection: An open transaction.
        trial: The trial as it is now.
        known: What the book remembers of it, with the metrics of this point.
        point: The new point.
        metrics: The point's metrics, fit for JSON.

    Returns:
        Whether all of it was written; if not, nothing was.
    """
    attempt = trial.attempt
    if connection.dialect.name != "postgresql" or attempt is None or attempt.number != known.attempt:
        return False
    if not known.fits(trial):
        return False
    of_trial, of_attempt = rows.moving_values(trial, known.metrics), _moving(trial, attempt, known, None)
    parts = (
        (hot.OF_TRIAL, of_trial),
        (hot.OF_ATTEMPT, of_attempt),
        (hot.OF_POINT, _point_row(known.id, point, metrics)),
    )
    values = {prefix + name: value for prefix, row in parts for name, value in row.items()}
    statement = hot.step(frozenset(of_trial), frozenset(of_attempt), _REPLACED)
    connection.execute(statement, {**values, hot.KEY: known.id, hot.NUMBER: attempt.number})
    return True


def save_points(
    connection: Connection, trial: int, new: Sequence[Point], metrics: Sequence[dict[str, float | None]]
) -> None:
    """Writes points of a trial's curves; a step that is there already is replaced.

    Args:
        connection: An open transaction.
        trial: The trial's key.
        new: The points in the order of their reports.
        metrics: The points' metrics, fit for JSON, in the same order.
    """
    # By step, because one statement may not touch the same row twice; the last one counts.
    by_step = {point.step: _point_row(trial, point, values) for point, values in zip(new, metrics, strict=True)}
    if by_step:
        _upsert(connection, points, list(by_step.values()), _REPLACED)


def _point_row(trial: int, point: Point, metrics: dict[str, float | None]) -> dict[str, object]:
    return {"trial": trial, "step": point.step, "time": point.time, "metrics": metrics}


def _moving(trial: Trial, attempt: Attempt, known: Known, at: float | None) -> dict[str, object]:
    ended = rows.outcome(trial)
    return {
        "token": attempt.token,
        "ended_at": None if ended is None else trial.ended_at or at or trial.created_at,
        "outcome": None if ended is None else str(ended),
        "message": clean.text(trial.error_message or (trial.reason.text if trial.reason else "")),
        "hint": clean.text(trial.error_hint),
        "last_step": trial.last_step,
        "cost_s": max(0.0, trial.cost_s - known.spent_before),
    }


def _upsert(
    connection: Connection, table: Table, values: Sequence[dict[str, object]], replaced: tuple[str, ...]
) -> None:
    connection.execute(hot.upsert(table, connection.dialect.name, replaced), list(values))
