"""News of jobs for everybody who follows them: the store is asked once per job and second, however many look on."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import anyio
from anyio.to_thread import run_sync

from autotune.api.port import ServicePort
from autotune.errors import NotFoundError
from autotune.views import EventView

LOOK_S = 1.0
"""Seconds between two looks at the record of a job that somebody follows."""

BATCH = 200
"""Events read at a time."""


@dataclass(kw_only=True, slots=True)
class _Watch:
    """What the last look at a job's record saw."""

    newest: int = 0
    looked_at: float = float("-inf")


class Feed:
    """Reads what is new in the records of jobs.

    Args:
        service: Where the records are.
        look_s: Seconds for which a look that found nothing new counts for everybody.
        now: A clock that never goes back, in seconds.
        closing: Whether the server wants to end, so that nobody who follows may keep it from that.
    """

    def __init__(
        self,
        service: ServicePort,
        *,
        look_s: float = LOOK_S,
        now: Callable[[], float] = time.monotonic,
        closing: Callable[[], bool] | None = None,
    ) -> None:
        self.service = service
        self.look_s = look_s
        self.now = now
        self.closing = closing or server_is_closing
        self._watches: dict[str, _Watch] = {}

    async def after(self, job_id: str, seen: int, *, surely: bool = False) -> list[EventView]:
        """The next events with an id above ``seen``, at most ``BATCH``; empty when there are none yet.

        Args:
            job_id: The job.
            seen: Id of the last event that the caller has.
            surely: Ask the store in any case, also when somebody else has just found nothing new.

        Raises:
            NotFoundError: If there is no such job.
            UnreachableError: If the database does not answer.
        """
        watch = self._watches.setdefault(job_id, _Watch())
        fresh = self.now() - watch.looked_at < self.look_s
        if seen >= watch.newest and fresh and not surely:
            return []
        if seen >= watch.newest:
            # Said before the answer is there: whoever comes meanwhile need not ask the same.
            watch.looked_at = self.now()
        try:
            events = await run_sync(self.service.events, job_id, seen, BATCH)
        except NotFoundError:
            self._watches.pop(job_id, None)
            raise
        if events:
            watch.newest = max(watch.newest, events[-1].id)
        return events

    async def pause(self) -> None:
        """Waits until another look can find something."""
        await anyio.sleep(self.look_s)


def server_is_closing() -> bool:
    """Whether uvicorn has been told to end.

    On a signal it waits for every answer to finish, without telling the answers; one that follows a job would hold it
    for days. Its signal handler is a method of the server, whose ``should_exit`` knows.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        server = getattr(signal.getsignal(number), "__self__", None)
        if getattr(server, "should_exit", False) is True:
            return True
    return False
