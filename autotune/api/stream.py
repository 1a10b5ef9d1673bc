"""A job's record as server-sent events: resumable by ``Last-Event-ID``, never silent for long, ended with the job.

On the wire: each event of the record is one message whose ``id`` is the event's and whose ``data`` is the same JSON
that the list gives. A comment every ``HEARTBEAT_S`` seconds keeps proxies from cutting the line. The last message is
of the type ``end`` and carries the job's state; it has no id, so that whoever resumes after it misses nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator

from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from pydantic import TypeAdapter

from autotune.api.feed import Feed
from autotune.errors import AutotuneError, UnreachableError, UsageError
from autotune.states import JOB_ENDS
from autotune.views import EventView

logger = logging.getLogger("autotune.api")

MEDIA_TYPE = EventSourceResponse.media_type
HEARTBEAT_S = 15.0
RETRY_MS = 2000
MAX_EVENT_ID = 2**31 - 1
"""What a database can compare with an event's id."""

_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_EVENT = TypeAdapter(EventView)


def wants_stream(accept: str) -> bool:
    """Whether an ``Accept`` header names server-sent events."""
    return any(kind.partition(";")[0].strip().lower() == MEDIA_TYPE for kind in accept.split(","))


def position(last_event_id: str | None, after: int) -> int:
    """The id after which a stream begins: the header of a browser that comes back wins over the address it repeats.

    Raises:
        UsageError: If the header is no id of an event.
    """
    if not last_event_id:
        return after
    if last_event_id.isascii() and last_event_id.isdigit() and int(last_event_id) <= MAX_EVENT_ID:
        return int(last_event_id)
    raise UsageError(
        f"Last-Event-ID: got {last_event_id[:40]!r}, allowed is the id of an event, a whole number from 0.",
        hint="Leave the header out to begin with the first event.",
    )


def stream_response(feed: Feed, job_id: str, seen: int, state: str) -> EventSourceResponse:
    """Streams the events after ``seen`` of a job that was in ``state`` a moment ago."""
    return EventSourceResponse(_messages(feed, job_id, seen, state), headers=_HEADERS)


async def _messages(feed: Feed, job_id: str, seen: int, state: str) -> AsyncIterator[bytes]:
    yield format_sse_event(retry=RETRY_MS, comment=f"events of {job_id!a}")
    last_sent = feed.now()
    while not feed.closing():
        # The state was read before the record, so a job that has ended has its last event in the record by now.
        events = await _next(feed, job_id, seen, surely=state in JOB_ENDS)
        for event in events or ():
            yield format_sse_event(data_str=_data(event), id=str(event.id))
            seen, last_sent = event.id, feed.now()
            if event.kind == "job.state":
                state = str(event.data.get("to", state))
        if events:
            continue
        if events is not None and state in JOB_ENDS:
            yield format_sse_event(event="end", data_str=json.dumps({"state": state}))
            return
        if feed.now() - last_sent >= HEARTBEAT_S:
            yield KEEPALIVE_COMMENT
            last_sent = feed.now()
        await feed.pause()


async def _next(feed: Feed, job_id: str, seen: int, *, surely: bool) -> list[EventView] | None:
    """The next events, or ``None`` when the database does not answer: whoever follows a job waits for it too."""
    try:
        return await feed.after(job_id, seen, surely=surely)
    except UnreachableError as error:
        logger.warning("the record of job %s cannot be read now: %s", job_id, error.message)
        return None
    except AutotuneError:
        logger.exception("the record of job %s cannot be followed any further", job_id)
        raise


def _data(event: EventView) -> str:
    # ASCII only: the line ends of Unicode (U+2028, U+0085) inside a text would break the message into two lines.
    return json.dumps(json.loads(_EVENT.dump_json(event)))
