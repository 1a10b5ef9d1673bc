"""How long answers take, by route template: the numbers behind the API's histograms.

Kept in plain dictionaries, so that a process which nobody scrapes never imports the Prometheus client.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autotune.api.dashboard import is_dashboard

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds of the histogram's buckets in seconds; the last one, without a bound, comes on top."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """What requests are told apart by; each field takes few values, whatever people send."""

    route: str
    method: str
    status: str


@dataclass(kw_only=True, slots=True)
class Histogram:
    """How many requests took how long; ``counts`` has one more entry than ``BUCKETS_S``."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        """Counts one request."""
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum_s += seconds


class Latency:
    """Collects the durations of requests, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._histograms: dict[Kind, Histogram] = {}

    def add(self, kind: Kind, seconds: float) -> None:
        """Counts one request."""
        with self._lock:
            self._histograms.setdefault(kind, Histogram()).add(seconds)

    def snapshot(self) -> Mapping[Kind, Histogram]:
        """What has been counted so far."""
        with self._lock:
            return {
                kind: Histogram(counts=list(found.counts), sum_s=found.sum_s)
                for kind, found in self._histograms.items()
            }


class MeasureLatency:
    """Measures each request until its answer begins; how long a stream then lasts says nothing about speed."""

    def __init__(self, app: ASGIApp, latency: Latency, now: Callable[[], float] = time.perf_counter) -> None:
        self.app = app
        self.latency = latency
        self.now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = self.now()

        async def send_measured(message: Message) -> None:
            if message["type"] == "http.response.start":
                kind = Kind(route=_route(scope), method=_method(scope["method"]), status=str(message["status"]))
                self.latency.add(kind, self.now() - began)
            await send(message)

        await self.app(scope, receive, send_measured)


def _method(method: str) -> str:
    return method if method in _METHODS else "other"


def _route(scope: Scope) -> str:
    """The template of the route that took the request, never the address itself."""
    template = getattr(scope.get("route"), "path", None)
    if isinstance(template, str):
        return template
    return "/dashboard" if is_dashboard(scope["path"]) else "none"
