"""Independent random streams from one seed, by name, so that a restart draws what an uninterrupted run would."""

from __future__ import annotations

import hashlib


def child_seed(seed: int, *names: str | int) -> int:
    """A 32-bit seed that depends on the root seed and on all the names, and on nothing else."""
    digest = hashlib.sha256("/".join(map(str, (seed, *names))).encode()).digest()
    return int.from_bytes(digest[:4], "big")
