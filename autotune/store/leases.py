"""Leases: who drives a job, until when, and how a driver that lost the right is kept from writing.

Each lease of a job carries a token that is one higher than the one before. A holder is recognised by owner and token,
so a driver that slept through its lease cannot write over its successor's work (Kleppmann's fencing).
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, or_, select, update

from autotune.errors import ConflictError, LeaseLostError, NotFoundError
from autotune.states import JobState
from autotune.store import hot
from autotune.store.models import jobs
from autotune.store.values import Lease


def check_lease(connection: Connection, lease: Lease, *, durable: bool = True) -> None:
    """Makes sure that a lease still counts, and keeps it so until this transaction ends.

    An expired lease that nobody took since still counts: its holder is the only one who wrote.

    Args:
        connection: An open transaction.
        lease: The right to write.
        durable: Whether the commit waits for PostgreSQL's disk. Only a crash of the server can lose what did not wait;
            SQLite is set up like that for every transaction (see ``engine``).

    Raises:
        LeaseLostError: If another driver holds the job by now, or the lease was given up.
    """
    statement = hot.LEASE if durable or connection.dialect.name != "postgresql" else hot.LEASE_WITHOUT_DISK
    row = connection.execute(statement, {hot.KEY: lease.job}).one_or_none()
    if row is None or row.lease_token != lease.token or row.lease_owner != lease.owner:
        raise _lost(lease, None if row is None else row.lease_owner)


class LeaseRepository:
    """Grants, renews and ends leases, inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lease(self, job: str, owner: str, now: float, ttl: float) -> Lease:
        """Takes a job that is free or whose lease has expired, for ``ttl`` seconds.

        Raises:
            ConflictError: If another owner (or this one, earlier) holds it.
            NotFoundError: If there is no such job.
        """
        statement = (
            update(jobs)
            .where(jobs.c.id == job, free(now))
            .values(lease_owner=owner, lease_token=jobs.c.lease_token + 1, lease_expires=now + ttl)
            .returning(jobs.c.lease_token)
        )
        token = self._connection.execute(statement).scalar_one_or_none()
        if token is not None:
            return Lease(job=job, owner=owner, token=token, expires=now + ttl)
        row = self._connection.execute(
            select(jobs.c.lease_owner, jobs.c.lease_expires).where(jobs.c.id == job)
        ).one_or_none()
        if row is None:
            raise NotFoundError(f"there is no job {job!r}.", hint="List them with: autotune jobs")
        raise ConflictError(
            f"job {job!r} is driven by {row.lease_owner}, with {row.lease_expires - now:.0f} s left on its lease.",
            hint=f"Watch it with: autotune show {job}. If its driver is dead, try again when the lease has expired.",
        )

    def claim(self, owner: str, now: float, ttl: float, turn: Sequence[str] | None = None) -> Lease | None:
        """Takes the next queued job that nobody holds; ``None`` when there is none.

        Two claimers at once get different jobs: on PostgreSQL by ``SKIP LOCKED``, on SQLite by its single writer.

        Args:
            owner: Who takes it.
            now: Epoch seconds.
            ttl: Seconds until the lease expires.
            turn: The jobs that may be taken, best first; ``None`` = all, highest priority first, then oldest.
        """
        waiting = select(jobs.c.id).where(jobs.c.state == JobState.QUEUED, free(now)).limit(1)
        waiting = waiting.with_for_update(skip_locked=True)
        choices = [waiting.order_by(jobs.c.priority.desc(), jobs.c.created_at, jobs.c.id)]
        if turn is not None:
            choices = [waiting.where(jobs.c.id == job) for job in turn]
        for choice in choices:
            job = self._connection.execute(choice).scalar_one_or_none()
            if job is not None:
                return self.lease(job, owner, now, ttl)
        return None

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        """Prolongs a lease to ``ttl`` seconds from now; also an expired one, as long as nobody took the job.

        Raises:
            LeaseLostError: If the job is somebody else's by now.
        """
        self._change(lease, {"lease_expires": now + ttl})
        return Lease(job=lease.job, owner=lease.owner, token=lease.token, expires=now + ttl)

    def release(self, lease: Lease) -> None:
        """Gives the job back; a second release of the same lease does nothing.

        Raises:
            LeaseLostError: If the job was leased again in the meantime.
        """
        found = self._connection.execute(
            select(jobs.c.lease_owner, jobs.c.lease_token).where(jobs.c.id == lease.job)
        ).one_or_none()
        if found is not None and found.lease_token == lease.token and found.lease_owner is None:
            return
        self._change(lease, {"lease_owner": None, "lease_expires": None})

    def revoke(self, job: str, owner: str) -> bool:
        """Takes the lease away from an owner that is known to be dead, without waiting for it to expire.

        Returns:
            Whether this owner held it. A revoked owner that lives after all is fenced out like one that lost its lease.
        """
        statement = (
            update(jobs)
            .where(jobs.c.id == job, jobs.c.lease_owner == owner)
            .values(lease_owner=None, lease_expires=None)
        )
        return self._connection.execute(statement).rowcount == 1

    def _change(self, lease: Lease, values: dict[str, float | None]) -> None:
        statement = (
            update(jobs)
            .where(and_(jobs.c.id == lease.job, jobs.c.lease_owner == lease.owner, jobs.c.lease_token == lease.token))
            .values(**values)
        )
        if self._connection.execute(statement).rowcount != 1:
            owner = self._connection.execute(
                select(jobs.c.lease_owner).where(jobs.c.id == lease.job)
            ).scalar_one_or_none()
            raise _lost(lease, owner)


def free(now: float) -> ColumnElement[bool]:
    """The condition that nobody holds a job at ``now``."""
    return or_(jobs.c.lease_owner.is_(None), jobs.c.lease_expires <= now)


def _lost(lease: Lease, owner: str | None) -> LeaseLostError:
    return LeaseLostError(
        f"{lease.owner} no longer holds job {lease.job!r} (token {lease.token}); it is "
        + (f"driven by {owner} now." if owner else "free now."),
        hint="Nothing was written. This driver must stop; the job goes on with its new holder.",
    )
