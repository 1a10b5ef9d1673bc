"""Tokens and teams."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, or_, select, update

from autotune.access import Role
from autotune.errors import ConflictError, NotFoundError
from autotune.states import JobState
from autotune.store.models import jobs, studies, teams, tokens, trials
from autotune.store.values import Team, Token


class AccessRepository:
    """Tokens and teams inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add_token(self, token: Token) -> None:
        """Keeps a new token."""
        self._connection.execute(
            insert(tokens).values(
                id=token.id,
                name=token.name,
                role=str(token.role),
                team=token.team,
                digest=token.digest,
                created_at=token.created_at,
                expires_at=token.expires_at,
            )
        )

    def token(self, token_id: str) -> Token | None:
        """The token with this public part."""
        row = self._connection.execute(select(tokens).where(tokens.c.id == token_id)).one_or_none()
        return None if row is None else _token(row)

    def tokens(self) -> tuple[Token, ...]:
        """All tokens, oldest first, the dead ones included."""
        return tuple(_token(row) for row in self._connection.execute(select(tokens).order_by(tokens.c.created_at)))

    def any_token(self) -> bool:
        """Whether a token was ever given out: from then on the door stays shut, even when all of them are dead."""
        return self._connection.execute(select(func.count()).select_from(tokens)).scalar_one() > 0

    def lives_admin(self, now: float) -> bool:
        """Whether some token of an administrator still works."""
        statement = (
            select(func.count())
            .select_from(tokens)
            .where(
                tokens.c.role == str(Role.ADMIN),
                tokens.c.revoked_at.is_(None),
                or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > now),
            )
        )
        return self._connection.execute(statement).scalar_one() > 0

    def revoke(self, token_id: str, now: float) -> Token:
        """Takes a token back.

        Raises:
            ConflictError: If that was done already.
            NotFoundError: If there is none with this id.
        """
        found = self.token(token_id)
        if found is None:
            raise NotFoundError(f"there is no token {token_id!r}.", hint="List them with: autotune token list")
        if found.revoked_at is not None:
            raise ConflictError(f"token {token_id!r} was revoked already.")
        self._connection.execute(update(tokens).where(tokens.c.id == token_id).values(revoked_at=now))
        again = self.token(token_id)
        assert again is not None
        return again

    def used(self, token_id: str, now: float) -> None:
        """Remembers when a token was used last."""
        self._connection.execute(update(tokens).where(tokens.c.id == token_id).values(used_at=now))

    def put_team(self, team: Team) -> None:
        """Sets what a team may use."""
        self._connection.execute(delete(teams).where(teams.c.name == team.name))
        self._connection.execute(
            insert(teams).values(
                name=team.name,
                parallel_gpus=team.parallel_gpus,
                gpu_hours_a_month=team.gpu_hours_a_month,
                share=team.share,
            )
        )

    def teams(self) -> dict[str, Team]:
        """The teams that have a quota or a share of their own, by name."""
        rows = self._connection.execute(select(teams).order_by(teams.c.name))
        return {
            row.name: Team(
                name=row.name,
                parallel_gpus=row.parallel_gpus,
                gpu_hours_a_month=row.gpu_hours_a_month,
                share=row.share,
            )
            for row in rows
        }

    def used_seconds(self, since: float) -> dict[str, dict[str, float]]:
        """Team -> job -> seconds that its trials occupied their resources, of trials that were at work after ``since``.

        Args:
            since: Epoch seconds; a trial that began before counts whole.
        """
        statement = (
            select(jobs.c.team, jobs.c.id, func.sum(trials.c.cost_s).label("cost"))
            .select_from(trials.join(studies, trials.c.study == studies.c.id).join(jobs, studies.c.job == jobs.c.id))
            .where(or_(trials.c.ended_at.is_(None), trials.c.ended_at >= since))
            .group_by(jobs.c.team, jobs.c.id)
        )
        found: dict[str, dict[str, float]] = {}
        for row in self._connection.execute(statement):
            found.setdefault(row.team, {})[row.id] = row.cost or 0.0
        return found

    def at_work(self) -> tuple[str, ...]:
        """Ids of the jobs that hold resources now."""
        states = [str(state) for state in (JobState.RUNNING, JobState.PAUSED, JobState.STOPPING)]
        statement = select(jobs.c.id).where(jobs.c.state.in_(states), jobs.c.lease_owner.is_not(None))
        return tuple(self._connection.execute(statement).scalars())


def _token(row: Row[Any]) -> Token:
    return Token(
        id=row.id,
        name=row.name,
        role=Role(row.role),
        team=row.team,
        digest=row.digest,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        used_at=row.used_at,
    )
