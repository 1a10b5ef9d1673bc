"""Turns what a database driver says into what a person can act on."""

from __future__ import annotations

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from autotune.errors import AutotuneError, ConflictError, NotAllowedError, UnreachableError

_RULES: tuple[tuple[str, type[AutotuneError], str, str], ...] = (
    (
        "readonly database",
        NotAllowedError,
        "cannot be written",
        "Give yourself write access to the file and its directory, or choose another with AUTOTUNE_HOME.",
    ),
    (
        "unable to open database file",
        NotAllowedError,
        "cannot be opened",
        "Create the directory and give yourself write access, or choose another with AUTOTUNE_HOME.",
    ),
    (
        "file is not a database",
        ConflictError,
        "is not an SQLite database",
        "Point AUTOTUNE_DATABASE_URL at another file; this one was left as it is.",
    ),
    (
        "is malformed",
        ConflictError,
        "is damaged",
        "Restore the file from a backup, or move it away to start with an empty one.",
    ),
    (
        "is locked",
        UnreachableError,
        "is locked by another process",
        "Find out who holds it (for example: fuser FILE) and try again; SQLite needs a local disk, not NFS.",
    ),
    (
        "database or disk is full",
        UnreachableError,
        "cannot grow: the disk is full",
        "Free some space and try again; nothing was half-written.",
    ),
    (
        "authentication failed",
        NotAllowedError,
        "refuses the user or the password",
        "Check the user and the password in AUTOTUNE_DATABASE_URL.",
    ),
    (
        "permission denied",
        NotAllowedError,
        "does not allow this to its user",
        "Grant the user of AUTOTUNE_DATABASE_URL the right to create and write tables.",
    ),
)


def describe(url: URL) -> str:
    """The database in words, without its password."""
    if url.get_backend_name() == "sqlite":
        return f"the study database {url.database}"
    return f"the study database {url.render_as_string(hide_password=True)}"


def translate(error: DBAPIError, url: URL) -> AutotuneError | None:
    """The project's own error for a driver's, or ``None`` where the fault is in our statement and not outside."""
    said = str(error.orig).strip().splitlines()[0] if error.orig and str(error.orig).strip() else type(error).__name__
    for sign, kind, what, hint in _RULES:
        if sign in said:
            return kind(f"{describe(url)} {what} ({said}).", hint=hint)
    if type(error).__name__ in {"OperationalError", "InterfaceError"} or error.connection_invalidated:
        return UnreachableError(
            f"{describe(url)} does not answer ({said}).",
            hint="Check that the server runs and that AUTOTUNE_DATABASE_URL names its host, port and database.",
        )
    return None
