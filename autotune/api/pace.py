"""How often one caller may ask: a bucket of permissions for each token, filled at a steady rate."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from autotune.errors import TooManyRequestsError

_FORGET = 10_000
"""Buckets beyond this are dropped when they are full again: a full one says nothing."""


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Pace:
    """Permissions to ask.

    Args:
        per_second: New permissions a second for each caller.
        burst: Permissions that a caller can save up.
        now: A clock that never goes back, in seconds.
    """

    def __init__(self, per_second: float, burst: int, now: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._now = now
        self._buckets: dict[str, _Bucket] = {}
        self._lock = threading.Lock()

    def take(self, who: str) -> None:
        """Takes one permission.

        Raises:
            TooManyRequestsError: If none is left; the hint says when there will be.
        """
        with self._lock:
            now = self._now()
            bucket = self._buckets.setdefault(who, _Bucket(left=self._burst, at=now))
            bucket.left = min(self._burst, bucket.left + (now - bucket.at) * self._per_second)
            bucket.at = now
            if len(self._buckets) > _FORGET:
                self._forget(now)
            if bucket.left < 1:
                error = TooManyRequestsError(
                    f"too many requests: allowed are {self._per_second:g} a second, and {self._burst:g} at once.",
                    hint="Follow a job with its event stream instead of asking again and again.",
                )
                error.wait_s = max(1, math.ceil((1 - bucket.left) / self._per_second))
                raise error
            bucket.left -= 1

    def _forget(self, now: float) -> None:
        filled = [who for who, b in self._buckets.items() if b.left + (now - b.at) * self._per_second >= self._burst]
        for who in filled:
            del self._buckets[who]
