"""Trials that a job leaves running when it ends without a driver that could give them their verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import Connection, func, insert, select, update

from autotune.search.types import Event, Reason, Trial
from autotune.states import TrialState
from autotune.store import rows
from autotune.store.models import attempts, events, points, studies, trials
from autotune.store.studies import event_values


def cancel_running(
    connection: Connection, job: str, now: float, why: str, unpaid: Callable[[int, Trial, float], float]
) -> int:
    """Cancels a job's running trials and closes their attempts; a job that is resumed queues them again.

    Args:
        connection: An open transaction.
        job: The job's id.
        now: Epoch seconds.
        why: Why the job ends, as a clause.
        unpaid: Answers for how many seconds a trial of a stage was at work after its last word, which was at this time.

    Returns:
        How many there were.
    """
    own = (
        select(trials, studies.c.stage)
        .join(studies, studies.c.id == trials.c.study)
        .where(studies.c.job == job, trials.c.state == str(TrialState.RUNNING))
        .order_by(studies.c.stage, trials.c.number)
    )
    found = connection.execute(own).all()
    for row in found:
        trial = rows.read_trial(row)
        latest = select(func.max(points.c.time)).where(points.c.trial == row.id)
        more = unpaid(row.stage, trial, connection.execute(latest).scalar() or 0.0)
        reason = Reason(pruner="job", text=why)
        ended = replace(trial, state=TrialState.CANCELLED, reason=reason, ended_at=now, cost_s=trial.cost_s + more)
        values = rows.moving_values(ended, dict(row.metrics))
        connection.execute(update(trials).where(trials.c.id == row.id).values(**values))
        left_open = update(attempts).where(attempts.c.trial == row.id, attempts.c.ended_at.is_(None))
        outcome = str(rows.outcome(ended))
        connection.execute(
            left_open.values(ended_at=now, outcome=outcome, message=why, cost_s=attempts.c.cost_s + more)
        )
        event = Event(
            at=now,
            kind="trial.state",
            text=f"trial {trial.number} is cancelled: {why}",
            trial=trial.number,
            data={"state": str(ended.state)},
        )
        connection.execute(insert(events), [event_values(job, event, row.stage)])
    return len(found)
