"""The statements of every reported step, built once: composing one takes longer than running it."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from sqlalchemy import BindParameter, Insert, Select, Table, Update, bindparam, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from autotune.store.models import attempts, jobs, points, trials

KEY, NUMBER = "key_of_row", "number_of_row"
"""Parameters that name the row; no column is called so."""
OF_TRIAL, OF_ATTEMPT, OF_POINT = "of_trial_", "of_attempt_", "of_point_"
"""What the parameters of ``step`` begin with: one called as a column would be a value of every table that has it."""

LEASE: Select[tuple[str | None, int]] = (
    select(jobs.c.lease_owner, jobs.c.lease_token).where(jobs.c.id == bindparam(KEY)).with_for_update()
)
"""Who holds a job, which stays so until the transaction ends."""

LEASE_WITHOUT_DISK = LEASE.add_columns(func.set_config("synchronous_commit", "off", True))
"""The same on PostgreSQL, which then commits this transaction before it is on disk: one round trip for both."""


@cache
def update_trial(columns: frozenset[str]) -> Update:
    """Changes these columns of one trial."""
    return update(trials).where(trials.c.id == bindparam(KEY)).values({name: bindparam(name) for name in columns})


@cache
def update_attempt(columns: frozenset[str]) -> Update:
    """Changes these columns of one attempt."""
    own = (attempts.c.trial == bindparam(KEY), attempts.c.number == bindparam(NUMBER))
    return update(attempts).where(*own).values({name: bindparam(name) for name in columns})


@cache
def step(of_trial: frozenset[str], of_attempt: frozenset[str], replaced: tuple[str, ...]) -> Insert:
    """On PostgreSQL: changes a trial and its attempt and upserts a point of its curve, in one round trip.

    The parameters are called as the columns, with ``OF_TRIAL``, ``OF_ATTEMPT`` and ``OF_POINT`` before them.
    """

    def bound(table: Table, prefix: str, names: Collection[str]) -> dict[str, BindParameter[object]]:
        return {name: bindparam(prefix + name, type_=table.c[name].type) for name in names}

    trial = update(trials).where(trials.c.id == bindparam(KEY)).values(bound(trials, OF_TRIAL, of_trial))
    own = (attempts.c.trial == bindparam(KEY), attempts.c.number == bindparam(NUMBER))
    attempt = update(attempts).where(*own).values(bound(attempts, OF_ATTEMPT, of_attempt))
    point = upsert(points, "postgresql", replaced).values(bound(points, OF_POINT, points.c.keys()))
    return point.add_cte(trial.cte("of_trial"), attempt.cte("of_attempt"))


@cache
def upsert(table: Table, dialect: str, replaced: tuple[str, ...]) -> sqlite.Insert | postgresql.Insert:
    """Inserts rows; of those that are there already the named columns are replaced."""
    statement = sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)
    excluded = {name: statement.excluded[name] for name in replaced}
    return statement.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=excluded)
