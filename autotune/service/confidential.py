"""Keeps secrets out of what is stored: a space is kept, shown, mirrored and logged as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autotune.errors import InvalidSpaceError, Problem
from autotune.logs import holds_secret
from autotune.service.spaces import ResolvedSpace
from autotune.spec.values import JsonValue

_NAMED = re.compile(r"(?i)(password|passwd|secret|api_?key|access_?key|credentials?|(auth|access|hub|hf)_?token)$")
"""How keys end whose value is a secret."""
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")


def refuse_secrets(resolved: ResolvedSpace, source: str) -> None:
    """Refuses a space that holds a password, a token, or an address with credentials, comments included.

    Raises:
        InvalidSpaceError: With the place of each; never with the secret.
    """
    found = [
        Problem(path=path, message="looks like a secret.")
        for path, value, named in _texts(resolved.document, "", named=False)
        if (named and not _PLACEHOLDER.fullmatch(value)) or holds_secret(value)
    ]
    if not found:
        found = [
            Problem(path="", message=f"line {number} looks like a secret.", line=number)
            for number, line in enumerate(source.splitlines(), start=1)
            if holds_secret(line)
        ]
    if found:
        raise InvalidSpaceError(
            "the space holds a secret, and a space is stored and shown as it is written: "
            + "; ".join(f"{one.path} {one.message}".strip() for one in found),
            hint="Take it out. A trial inherits the environment of the service and of Ray: export it there. "
            "For a database use PGPASSWORD or a password file.",
            problems=found,
        )


def _texts(value: JsonValue, path: str, *, named: bool) -> Iterator[tuple[str, str, bool]]:
    """Place and value of each text, and whether the key it stands under is one of a secret."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, f"{path}.{key}" if path else key, named=bool(_NAMED.search(key)))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _texts(inner, f"{path}[{place}]", named=named)
    elif isinstance(value, str) and value:
        yield path, value, named
