import asyncio
import json
import signal
import subprocess
import sys
from dataclasses import asdict
from math import nan

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.api.feed import BATCH, Feed
from autotune.api.stream import HEARTBEAT_S, position, stream_response, wants_stream
from autotune.errors import NotFoundError, UnreachableError, UsageError
from autotune.views import EventView
from tests.fakes import FakeService, finished_job, make_job

STREAM = {"Accept": "text/event-stream"}


def make_event(number, kind="trial.state", text="x", trial=0, **data):
    return EventView(id=number, at=float(number), kind=kind, text=text, trial=trial, data=data)


def ended(number, state="completed"):
    return make_event(number, kind="job.state", text=f"running -> {state}", trial=None, to=state)


def parse(body):
    answer = httpx2.Response(
        200, headers={"content-type": "text/event-stream"}, content=body, request=httpx2.Request("GET", "http://x")
    )
    return [message for message in httpx2.EventSource(answer) if message.data]


class SteppedFeed(Feed):
    """A feed whose pauses move its clock, and run what the test wants to happen meanwhile."""

    def __init__(self, service, steps=(), limit=100):
        self.time = 0.0
        super().__init__(service, now=lambda: self.time, closing=lambda: self.time > limit)
        self.steps = list(steps)

    async def pause(self):
        self.time += self.look_s
        if self.steps:
            self.steps.pop(0)()


def run(feed, seen=0, state="running"):
    async def collect():
        return b"".join([chunk async for chunk in stream_response(feed, "demo-1", seen, state).body_iterator])

    return asyncio.run(collect())


@pytest.fixture
def running(tmp_path):
    service = FakeService(tmp_path)
    service.add(make_job(state="running"))
    return service


def test_the_record_of_a_finished_job_streams_to_its_end(http, finished):
    finished.events_of["demo-1"] = [make_event(1), make_event(2, loss=nan), ended(3)]
    answer = http.get("/v1/jobs/demo-1/events", headers=STREAM)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    *events, end = parse(answer.content)
    assert [message.json() for message in events] == http.get("/v1/jobs/demo-1/events").json()
    assert [message.id for message in events] == ["1", "2", "3"]
    assert (end.event, end.json()) == ("end", {"state": "completed"})


def test_a_list_stays_a_list_for_everybody_else(http, finished):
    finished.events_of["demo-1"] = [make_event(1)]
    for accept in ("*/*", "application/json", "text/html,application/xhtml+xml,*/*;q=0.8"):
        assert http.get("/v1/jobs/demo-1/events", headers={"Accept": accept}).json()[0]["id"] == 1


@pytest.mark.parametrize("accept", ["text/event-stream", "Text/Event-Stream; q=0.9", "text/html, text/event-stream"])
def test_a_stream_is_recognised_however_it_is_asked_for(accept):
    assert wants_stream(accept)


def test_a_stream_goes_on_after_the_last_event_received(http, finished):
    finished.events_of["demo-1"] = [*map(make_event, range(1, 6)), ended(6)]
    answer = http.get("/v1/jobs/demo-1/events?after=1", headers={**STREAM, "Last-Event-ID": "4"})
    assert [message.id for message in parse(answer.content)][:2] == ["5", "6"]
    answer = http.get("/v1/jobs/demo-1/events?after=5", headers=STREAM)
    assert next(message.id for message in parse(answer.content)) == "6"


def test_a_stream_that_has_everything_ends_at_once(http, finished):
    finished.events_of["demo-1"] = [ended(1)]
    answer = http.get("/v1/jobs/demo-1/events", headers={**STREAM, "Last-Event-ID": "1"})
    assert [message.event for message in parse(answer.content)] == ["end"]


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "٣", str(2**63), "1e3"])
def test_a_position_that_is_no_event_is_refused(http, finished, value):
    with pytest.raises(UsageError, match="Last-Event-ID"):
        position(value, 0)
    if value.isascii():
        answer = http.get("/v1/jobs/demo-1/events", headers={**STREAM, "Last-Event-ID": value})
        assert answer.status_code == 400
        assert "Leave the header out" in answer.json()["hint"]


def test_an_unknown_job_is_a_problem_and_no_stream(http):
    answer = http.get("/v1/jobs/nothing-1/events", headers=STREAM)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_arrives_as_it_was_written(text):
    service = FakeService()
    service.store["demo-1"] = finished_job()
    event = make_event(1, text=text, note=text)
    service.events_of["demo-1"] = [event]
    messages = parse(run(SteppedFeed(service), state="completed"))
    assert json.loads(messages[0].data) == asdict(event)
    assert len(messages) == 2


def test_events_arrive_while_the_job_runs_and_the_stream_ends_with_it(running):
    record = running.events_of["demo-1"]
    steps = [lambda: record.append(make_event(1)), lambda: None, lambda: record.extend([make_event(2), ended(3)])]
    messages = parse(run(SteppedFeed(running, steps)))
    assert [message.id for message in messages[:3]] == ["1", "2", "3"]
    assert messages[-1].event == "end"
    assert len(messages) == 4


def test_a_long_record_is_sent_whole_and_in_order(running):
    count = 2 * BATCH + 7
    running.events_of["demo-1"] = [*map(make_event, range(1, count)), ended(count)]
    messages = parse(run(SteppedFeed(running)))
    assert [int(message.id) for message in messages[:-1]] == list(range(1, count + 1))


def test_a_job_that_was_resumed_has_not_ended(running):
    record = running.events_of["demo-1"]
    again = make_event(2, kind="job.state", trial=None, to="queued")
    record += [ended(1, "cancelled"), again]
    steps = [lambda: None, lambda: record.append(ended(3))]
    messages = parse(run(SteppedFeed(running, steps)))
    assert [message.json().get("state") for message in messages if message.event == "end"] == ["completed"]
    assert [message.id for message in messages[:3]] == ["1", "2", "3"]


def test_a_stream_is_whole_although_somebody_else_has_just_found_nothing(running):
    feed = SteppedFeed(running)
    assert asyncio.run(feed.after("demo-1", 0)) == []
    running.events_of["demo-1"] += [make_event(1), ended(2)]
    messages = parse(run(feed, state="completed"))
    assert [message.id for message in messages[:2]] == ["1", "2"]
    assert messages[2].event == "end"


def test_silence_is_broken_by_a_heartbeat(running):
    body = run(SteppedFeed(running, limit=3 * HEARTBEAT_S + 1)).decode()
    assert body.count(": ping\n\n") == 3


def test_a_database_that_is_away_is_waited_for(running):
    record, read = running.events_of["demo-1"], running.events

    def away(*_):
        raise UnreachableError("the database does not answer.")

    def back():
        running.events = read
        record.append(ended(1))

    running.events = away
    messages = parse(run(SteppedFeed(running, [lambda: None, lambda: None, back])))
    assert [message.event for message in messages] == ["message", "end"]


def test_a_closing_server_is_not_held_and_nobody_takes_it_for_the_end(running):
    messages = parse(run(SteppedFeed(running, [lambda: running.events_of["demo-1"].append(make_event(1))], limit=5)))
    assert [message.event for message in messages] == ["message"]


def test_many_who_follow_cost_one_look_a_second(running):
    looks = []
    read = running.events

    def counted(*arguments):
        looks.append(arguments)
        return read(*arguments)

    running.events = counted
    time = [0.0]
    feed = Feed(running, now=lambda: time[0])

    async def follow_for(seconds):
        for second in range(seconds):
            time[0] = second * 1.001
            found = await asyncio.gather(*(feed.after("demo-1", 0) for _ in range(30)))
            assert not any(found)

    asyncio.run(follow_for(10))
    assert len(looks) == 10
    running.events_of["demo-1"].append(make_event(1))
    assert asyncio.run(feed.after("demo-1", 0)) == []
    time[0] += feed.look_s
    assert [event.id for event in asyncio.run(feed.after("demo-1", 0))] == [1]
    assert [event.id for event in asyncio.run(feed.after("demo-1", 0))] == [1], "who is behind never waits"


def test_a_job_that_does_not_exist_is_not_remembered(running):
    feed = Feed(running)
    with pytest.raises(NotFoundError):
        asyncio.run(feed.after("nothing-1", 0))
    assert not feed._watches


SERVER = """
import sys, threading
import httpx2, uvicorn
from autotune.api import create_app
from autotune.cli.commands.serve import listen
from autotune.settings import Settings
from tests.fakes import FakeService, make_job

service = FakeService()
service.store["demo-1"] = make_job(state="running")
service.events_of["demo-1"] = []
listener = listen("127.0.0.1", 0)

def follow():
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/jobs/demo-1/events"
    with httpx2.stream("GET", url, headers={"Accept": "text/event-stream"}, trust_env=False) as answer:
        for _ in answer.iter_raw():
            print("following", flush=True)

threading.Thread(target=follow, daemon=True).start()
app = create_app(service, Settings())
uvicorn.Server(uvicorn.Config(app, log_config=None)).run(sockets=[listener])
"""


def test_a_signal_ends_a_server_that_somebody_follows():
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout.readline() == "following\n"
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=20) in (0, -signal.SIGTERM)
        finally:
            server.kill()
