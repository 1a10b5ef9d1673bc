"""Seeds for named purposes, independent of each other."""

from __future__ import annotations

import hashlib


def derived_seed(*parts: int | str) -> int:
    """A seed that depends on its parts alone, equal in every process and on every machine.

    Returns:
        0 to 2**63 - 1.
    """
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
