"""Tokens: making them, and finding out who holds one.

A token looks like ``at_<id>_<secret>``. The id may be shown; of the secret, 32 random bytes, only the SHA-256 digest is
kept: guessing is hopeless, so a slow hash would protect nothing and cost every request.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from dataclasses import asdict

from autotune.access import LOCAL, NAME, NAME_IN_WORDS, Caller, Role
from autotune.clock import Clock
from autotune.errors import ConflictError, UnauthenticatedError, UsageError
from autotune.store import Store
from autotune.store.values import Team, Token
from autotune.views import IssuedTokenView, TeamView, TokenView

_NAME = re.compile(NAME)
_FORM = re.compile(r"at_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")
_USED_S = 60.0
"""How exactly the last use of a token is remembered: every use would be a write."""
_GUARDED_S = 2.0
"""For how long the answer to "was a token ever given out?" is believed."""
_HINT = "Ask an administrator for one, and set AUTOTUNE_TOKEN or pass Client(token=...)."


class Doorkeeper:
    """Knows whether the door is shut, and whom to let in.

    Args:
        store: Where the tokens are.
        clock: What time it is.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._shut = False
        self._looked_at = float("-inf")
        self._lock = threading.Lock()

    def shut(self) -> bool:
        """Whether callers need a token: from the first one that was given out on, and for ever."""
        with self._lock:
            now = self._clock.now()
            if not self._shut and now - self._looked_at >= _GUARDED_S:
                with self._store.read() as work:
                    self._shut = work.access.any_token()
                self._looked_at = now
            return self._shut

    def let_in(self, text: str | None) -> Caller:
        """Who holds this token; whoever owns the machine while no token was ever given out.

        Raises:
            UnauthenticatedError: If there is no token, or it opens nothing (any more).
        """
        if not text:
            if self.shut():
                raise UnauthenticatedError("this service asks for a token, and the request has none.", hint=_HINT)
            return LOCAL
        form = _FORM.fullmatch(text)
        if form is None:
            raise UnauthenticatedError("what was sent as a token is none.", hint="A token looks like at_..._...")
        now = self._clock.now()
        with self._store.read() as work:
            token = work.access.token(form[1])
        if token is None or not hmac.compare_digest(token.digest, digest(form[2])):
            raise UnauthenticatedError("this token is unknown.", hint=_HINT)
        if not token.lives(now):
            raise UnauthenticatedError(
                f"token {token.id} of {token.name!r} " + ("was revoked." if token.revoked_at else "has expired."),
                hint=_HINT,
            )
        if token.used_at is None or now - token.used_at >= _USED_S:
            with self._store.begin() as work:
                work.access.used(token.id, now)
        return Caller(name=token.name, role=token.role, team=token.team, token=token.id)

    # -- for administrators ----------------------------------------------------------------------------------------

    def issue(
        self, caller: Caller, name: str, role: Role, team: str = "", expires_s: float | None = None
    ) -> IssuedTokenView:
        """Makes a token, whose text is told this once. The first one must be an administrator's, or nobody could.

        Raises:
            ConflictError: If it would be the first token and is no administrator's.
            NotAllowedError: If the caller is no administrator.
            UsageError: If the name, the team or the time is not allowed.
        """
        caller.require(Role.ADMIN, "giving out a token")
        for what, value in (("name", name), ("team", team)):
            if not _NAME.fullmatch(value) and (value or what == "name"):
                raise UsageError(f"{what}: got {value!r}; allowed are {NAME_IN_WORDS}.")
        if expires_s is not None and not 0 < expires_s < float("inf"):
            raise UsageError(f"expires: got {expires_s:g} s, allowed are times above 0.")
        now = self._clock.now()
        token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        token = Token(
            id=token_id,
            name=name,
            role=role,
            team=team,
            digest=digest(secret),
            created_at=now,
            expires_at=None if expires_s is None else now + expires_s,
        )
        with self._store.begin() as work:
            if role is not Role.ADMIN and not work.access.lives_admin(now):
                raise ConflictError(
                    "there is no administrator yet; from the first token on the service asks everybody for one.",
                    hint="Make yours first: autotune token create YOUR_NAME --role admin",
                )
            work.access.add_token(token)
        with self._lock:
            self._shut = True
        return IssuedTokenView(token=f"at_{token_id}_{secret}", about=_view(token, now))

    def tokens(self, caller: Caller) -> list[TokenView]:
        """All tokens, oldest first, without their secrets.

        Raises:
            NotAllowedError: If the caller is no administrator.
        """
        caller.require(Role.ADMIN, "listing the tokens")
        now = self._clock.now()
        with self._store.read() as work:
            return [_view(token, now) for token in work.access.tokens()]

    def revoke(self, caller: Caller, token_id: str) -> TokenView:
        """Takes a token back; it opens nothing from now on.

        Raises:
            ConflictError: If it was revoked already, or nobody could give out tokens afterwards.
            NotAllowedError: If the caller is no administrator.
            NotFoundError: If there is no such token.
        """
        caller.require(Role.ADMIN, "revoking a token")
        now = self._clock.now()
        with self._store.begin() as work:
            token = work.access.revoke(token_id, now)
            if token.role is Role.ADMIN and not caller.is_local and not work.access.lives_admin(now):
                raise ConflictError(
                    f"{token_id!r} is the last token of an administrator.",
                    hint="Make another one first, or revoke it on the service's own machine.",
                )
            return _view(token, now)

    def teams(self, caller: Caller) -> list[TeamView]:
        """The teams that have a quota or a share of their own.

        Raises:
            NotAllowedError: If the caller is no administrator.
        """
        caller.require(Role.ADMIN, "listing the teams")
        with self._store.read() as work:
            return [TeamView(**asdict(team)) for team in work.access.teams().values()]

    def put_team(self, caller: Caller, team: TeamView) -> TeamView:
        """Sets what a team may use.

        Raises:
            NotAllowedError: If the caller is no administrator.
            UsageError: If a value is not allowed.
        """
        caller.require(Role.ADMIN, "setting a quota")
        if not _NAME.fullmatch(team.name):
            raise UsageError(f"name: got {team.name!r}; allowed are {NAME_IN_WORDS}.")
        for what in ("parallel_gpus", "gpu_hours_a_month"):
            value = getattr(team, what)
            if value is not None and not 0 <= value < float("inf"):
                raise UsageError(f"{what}: got {value:g}, allowed are numbers from 0, or none for no limit.")
        if not 0 < team.share < float("inf"):
            raise UsageError(f"share: got {team.share:g}, allowed are numbers above 0.")
        with self._store.begin() as work:
            work.access.put_team(Team(**asdict(team)))
        return team


def digest(secret: str) -> str:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _view(token: Token, now: float) -> TokenView:
    return TokenView(
        id=token.id,
        name=token.name,
        role=str(token.role),
        team=token.team,
        lives=token.lives(now),
        created_at=token.created_at,
        expires_at=token.expires_at,
        revoked_at=token.revoked_at,
        used_at=token.used_at,
    )
