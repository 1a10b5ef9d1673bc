"""Who may do what: roles, and the person behind a request."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autotune.errors import NotAllowedError

NAME = r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}"
"""How the names of token holders and of teams look, as a regular expression."""
NAME_IN_WORDS = "1 to 63 letters, digits and the characters . _ @ -, the first a letter or a digit"


class Role(StrEnum):
    """What a token is for; each role may do what those before it may."""

    VIEWER = "viewer"
    """Looks at everything and changes nothing."""
    OPERATOR = "operator"
    """Submits jobs, and acts on the jobs of the own team."""
    ADMIN = "admin"
    """Acts on every job, and gives out tokens and quotas."""


_ORDER = tuple(Role)


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """The person, or program, behind a request.

    Attributes:
        name: Whose token it is; empty for whoever owns the machine.
        team: Whose jobs may be acted on; empty = only the own ones.
        token: The public part of the token; empty without one.
    """

    name: str
    role: Role
    team: str = ""
    token: str = ""

    @property
    def is_local(self) -> bool:
        """Whether the caller needs no token: the embedded service, or a service that has never given one out."""
        return not self.token

    def require(self, role: Role, what: str) -> None:
        """Refuses a caller of a lower role.

        Raises:
            NotAllowedError: If the caller may not.
        """
        if _ORDER.index(self.role) < _ORDER.index(role):
            raise NotAllowedError(
                f"{what} needs the role {role}; {self.name!r} is {self.role}.",
                hint="Ask an administrator of this service for a token of that role.",
            )

    def require_job(self, job: str, owner: str, team: str, what: str) -> None:
        """Refuses a caller to whom a job does not belong.

        Raises:
            NotAllowedError: If the caller may not act on the job.
        """
        self.require(Role.OPERATOR, what)
        if self.role is Role.ADMIN or self.name == owner or (self.team and self.team == team):
            return
        whose = f"{owner!r}" + (f" of team {team!r}" if team else "") if owner else "the administrator"
        raise NotAllowedError(
            f"job {job!r} belongs to {whose}; {self.name!r} may look at it only.",
            hint="Ask its owner, or somebody of its team, or an administrator.",
        )


LOCAL = Caller(name="", role=Role.ADMIN)
"""Whoever owns the machine."""
