"""The one exception tree.

Every error a person can meet carries a stable ``code``, a ``hint`` with the fix, the exit code of the command line
and the HTTP status. Errors cross process borders (Ray, multiprocessing), so each one survives pickling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One thing that is wrong in something a person wrote.

    Attributes:
        message: What is wrong, the value got and what is allowed.
        hint: The fix, or an empty string.
        path: Dotted path inside the document, for example ``search.trainer.optim.lr``.
        file: The file's name as the person gave it.
        line: 1-based line, 0 when unknown.
        column: 1-based column, 0 when unknown.
    """

    message: str
    hint: str = ""
    path: str = ""
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        where = f"{self.file or 'space'}:{self.line}:{self.column}: " if self.line else ""
        at = f"{self.path}: " if self.path else ""
        fix = f" {self.hint}" if self.hint else ""
        return f"{where}{at}{self.message}{fix}"


class AutotuneError(Exception):
    """Base of everything this project raises on purpose.

    Args:
        message: What happened, the value got and what is allowed.
        hint: The next thing to do.
        problems: The single problems, when there are several.
    """

    code: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 1
    status: ClassVar[int] = 500

    def __init__(self, message: str, *, hint: str = "", problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.hint, self.problems))


def _rebuild(kind: type[AutotuneError], message: str, hint: str, problems: tuple[Problem, ...]) -> AutotuneError:
    return kind(message, hint=hint, problems=problems)


class UsageError(AutotuneError, ValueError):
    """The call itself is off: a missing argument, a value outside its range."""

    code = "usage"
    exit_code = 2
    status = 400


class UnknownCursorError(UsageError):
    """A list was asked to go on after a place that it never named."""

    code = "unknown_cursor"
    status = 422


class InvalidSpaceError(AutotuneError, ValueError):
    """A space file cannot be accepted; ``problems`` lists everything that is wrong with it."""

    code = "invalid_space"
    exit_code = 3
    status = 422


class InvalidConfigError(AutotuneError, ValueError):
    """A trainer configuration cannot be accepted; ``problems`` lists everything that is wrong with it."""

    code = "invalid_config"
    exit_code = 3
    status = 422


class NotFoundError(AutotuneError, LookupError):
    """The thing that was named does not exist."""

    code = "not_found"
    exit_code = 4
    status = 404


class ConflictError(AutotuneError):
    """The request contradicts the present state: already running, already finished, port taken."""

    code = "conflict"
    exit_code = 5
    status = 409


class IllegalTransitionError(ConflictError):
    """A job or a trial was asked to change into a state that cannot follow its present one."""

    code = "illegal_transition"


class StaleAttemptError(ConflictError):
    """A worker reported for an attempt that is no longer the trial's current one; its report is refused."""

    code = "stale_attempt"


class LeaseLostError(ConflictError):
    """A driver acted on a job whose lease another driver holds by now."""

    code = "lease_lost"


class NotAllowedError(AutotuneError, PermissionError):
    """The caller may not do this, or the file system does not let us."""

    code = "not_allowed"
    exit_code = 6
    status = 403


class UnauthenticatedError(NotAllowedError):
    """The caller did not say who it is, or its token opens nothing."""

    code = "unauthenticated"
    status = 401


class TooManyRequestsError(AutotuneError):
    """The caller asks more often than the service answers one of them."""

    code = "too_many_requests"
    exit_code = 7
    status = 429
    wait_s = 1
    """Seconds after which it is worth trying again."""


class UnreachableError(AutotuneError, ConnectionError):
    """The service, the database or Ray does not answer."""

    code = "unreachable"
    exit_code = 7
    status = 503


class JobFailedError(AutotuneError):
    """The job that was waited for failed, or not one of its trials completed."""

    code = "job_failed"
    exit_code = 8
    status = 409


class WaitTimeoutError(AutotuneError, TimeoutError):
    """The wait was given up; the job goes on."""

    code = "timeout"
    exit_code = 9
    status = 504
