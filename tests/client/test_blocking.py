import sys
from collections.abc import Callable
from dataclasses import replace
from math import isnan, nan
from pathlib import Path

import httpx2
import pytest

from autotune.api import create_app
from autotune.cli.inprocess import InProcessTransport
from autotune.client import Client, check_succeeded
from autotune.clock import ManualClock
from autotune.errors import (
    AutotuneError,
    ConflictError,
    InvalidSpaceError,
    JobFailedError,
    NotFoundError,
    Problem,
    UnreachableError,
    UsageError,
    WaitTimeoutError,
)
from autotune.settings import Settings
from autotune.views import ErrorView, EventView, ReasonView
from tests.fakes import SPACE, FakeService, finished_job, finished_trials, make_best, make_job, make_pruned, make_trial
from tests.serving import served


@pytest.fixture
def service(tmp_path):
    return FakeService(tmp_path)


@pytest.fixture
def client(service, tmp_path):
    app = create_app(service, Settings(home=tmp_path))
    with Client("http://localhost", transport=InProcessTransport(app)) as client:
        yield client


def mocked(handler: Callable[[httpx2.Request], httpx2.Response], **options) -> Client:
    return Client("http://localhost:1", transport=httpx2.MockTransport(handler), **options)


def subclasses(kind):
    return [kind] + [each for child in kind.__subclasses__() for each in subclasses(child)]


def test_every_view_comes_back_as_it_was_sent(client, service):
    trials = finished_trials()
    job = service.add(finished_job(error=ErrorView(kind="a", message="b", hint="c")), trials)
    service.events_of[job.id] = [EventView(id=1, at=2.5, kind="job.state", text="x", trial=None, data={"a": [1, "b"]})]
    assert client.job(job.id) == job
    assert client.jobs().items == [job]
    assert client.trials(job.id).items == trials
    assert client.trial(job.id, 2) == trials[2]
    assert client.best(job.id) == make_best(job, trials)
    assert client.curves(job.id) == service.curves_of[job.id]
    assert client.events(job.id) == service.events_of[job.id]
    assert client.logs(job.id) == service.log
    assert client.spaces() == service.spaces()
    assert client.plan(SPACE) == service.plan(SPACE, "space.yaml")
    assert client.ready() == {"database": "ok", "mlflow": "ok"}
    assert job.id in client.report(job.id)


def test_the_same_over_a_real_connection(service, tmp_path):
    service.add(finished_job(), finished_trials())
    with served(create_app(service, Settings(home=tmp_path))) as url, Client(url) as client:
        assert client.job("demo-1") == service.job("demo-1")
        assert client.submit(SPACE).id == "demo-2"
        with pytest.raises(NotFoundError, match="demo-9"):
            client.job("demo-9")


def test_all_trials_go_through_every_page(client, service):
    trials = [make_trial(number) for number in range(1203)]
    service.add(finished_job(), trials)
    assert [trial.number for trial in client.all_trials("demo-1")] == list(range(1203))


def test_numbers_that_were_not_finite_are_nan_again_where_a_number_must_be(client, service):
    reason = ReasonView(pruner="not_finite", text="loss was NaN", numbers={"value": nan, "step": 3.0})
    service.add(finished_job(), [replace(make_pruned(0), reason=reason, violations={"kl": nan})])
    trial = client.trial("demo-1", 0)
    assert isnan(trial.violations["kl"])
    assert isnan(trial.reason.numbers["value"])
    assert trial.reason.numbers["step"] == 3.0
    assert trial.metrics["actor/loss"] is None


@pytest.mark.parametrize("kind", [kind for kind in subclasses(AutotuneError) if kind.__module__ == "autotune.errors"])
def test_every_error_arrives_as_the_class_that_was_raised(client, service, kind):
    problem = Problem(message="bad", hint="good", path="a.b", file="f.yaml", line=3, column=4)

    def broken(job_id):
        raise kind("what happened", hint="the fix", problems=[problem])

    service.job = broken
    with pytest.raises(AutotuneError) as caught:
        client.job("x")
    assert type(caught.value) is kind
    assert (caught.value.message, caught.value.hint, caught.value.problems) == ("what happened", "the fix", (problem,))


def test_problems_of_a_space_keep_their_lines(client):
    with pytest.raises(InvalidSpaceError) as caught:
        client.submit("name: x", file="mine.yaml")
    assert [(problem.file, problem.line, problem.column) for problem in caught.value.problems] == [
        ("mine.yaml", 1, 1),
        ("mine.yaml", 2, 7),
    ]


def test_an_unknown_code_still_becomes_the_nearest_class(client):
    def answer(request):
        body = {"code": "brand_new", "detail": "d", "hint": "h", "status": 404}
        return httpx2.Response(404, json=body, headers={"content-type": "application/problem+json"})

    with pytest.raises(NotFoundError, match="d"):
        mocked(answer).job("x")


@pytest.mark.parametrize(
    ("status", "kind"), [(404, NotFoundError), (500, AutotuneError), (502, UnreachableError), (413, UsageError)]
)
def test_an_answer_of_something_else_says_so(status, kind):
    client = mocked(lambda request: httpx2.Response(status, text="<html>nginx</html>"))
    with pytest.raises(kind) as caught:
        client.jobs()
    assert type(caught.value) is kind
    assert "autotune service" in caught.value.hint


def test_a_page_that_is_no_json_is_not_taken_for_an_answer():
    with pytest.raises(UnreachableError, match="text/html"):
        mocked(lambda request: httpx2.Response(200, html="<p>hello")).jobs()


def test_nothing_listening_is_unreachable_with_the_way_to_start_it():
    with Client("http://127.0.0.1:9", retries=0) as client, pytest.raises(UnreachableError) as caught:
        client.jobs()
    assert "http://127.0.0.1:9" in caught.value.message
    assert "autotune serve" in caught.value.hint


def test_no_answer_in_time_is_unreachable():
    def answer(request):
        raise httpx2.ReadTimeout("late")

    with pytest.raises(UnreachableError, match="within 5 s"):
        mocked(answer, timeout=5).jobs()


@pytest.mark.parametrize("address", ["localhost:8765", "", "ftp://x", "http://", "8765"])
def test_an_address_without_scheme_or_host_is_refused(address):
    with pytest.raises(UsageError, match="http://host:port"):
        Client(address)


def test_a_submission_is_sent_again_with_the_same_key_after_the_answer_got_lost(client, service, tmp_path):
    inner = InProcessTransport(create_app(service, Settings(home=tmp_path)))
    keys, clock = [], ManualClock()

    def lossy(request):
        keys.append(request.headers["idempotency-key"])
        answer = inner.handle_request(request)
        if len(keys) < 3:
            raise httpx2.ReadError("connection reset")
        return answer

    job = mocked(lossy, clock=clock).submit(SPACE)
    assert len(set(keys)) == 1
    assert len(keys) == 3
    assert list(service.store) == [job.id]
    assert clock.now() == pytest.approx(1.5)


def test_a_submission_gives_up_after_its_retries():
    sent = []

    def dead(request):
        sent.append(request)
        raise httpx2.ConnectError("refused")

    with pytest.raises(UnreachableError):
        mocked(dead, retries=2, clock=ManualClock()).submit(SPACE)
    assert len(sent) == 3


def test_a_refused_submission_is_not_sent_again(client, service):
    def conflict(source, file, key):
        service.calls.append(key)
        raise ConflictError("at work already")

    service.submit = conflict
    with pytest.raises(ConflictError):
        client.submit(SPACE)
    assert len(service.calls) == 1


class StepClock(ManualClock):
    """Changes a job while somebody waits."""

    def __init__(self, changes):
        super().__init__()
        self.changes = list(changes)

    def sleep(self, seconds):
        super().sleep(seconds)
        if self.changes:
            self.changes.pop(0)()


def waiting_client(service, tmp_path, changes):
    app = create_app(service, Settings(home=tmp_path))
    return Client("http://localhost", transport=InProcessTransport(app), clock=StepClock(changes))


def test_wait_returns_the_job_once_it_has_ended_well(service, tmp_path):
    service.add(make_job(state="running"))
    done = finished_job()
    changes = [lambda: None, lambda: service.add(done)]
    with waiting_client(service, tmp_path, changes) as client:
        assert client.wait("demo-1").state == "completed"


def test_wait_raises_when_the_job_fails(service, tmp_path):
    service.add(make_job(state="running"))
    error = ErrorView(kind="driver", message="its driver was killed.", hint="Look at driver.log.")
    changes = [lambda: service.change("demo-1", state="failed", error=error)]
    with waiting_client(service, tmp_path, changes) as client, pytest.raises(JobFailedError) as caught:
        client.wait("demo-1")
    assert "its driver was killed" in caught.value.message
    assert caught.value.hint == "Look at driver.log."


def test_wait_gives_up_exactly_when_its_time_is_over(service, tmp_path):
    service.add(make_job(state="running"))
    with waiting_client(service, tmp_path, []) as client:
        with pytest.raises(WaitTimeoutError, match=r"still running after 3\.5 s"):
            client.wait("demo-1", timeout=3.5, poll=1.0)
        assert client._clock.now() == pytest.approx(3.5)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"state": "cancelled"}, "was cancelled"),
        ({"state": "queued"}, "left before its end"),
        ({"trials": {"pruned": 3, "failed": 1}}, "3 pruned, 1 failed"),
        ({"trials": {}}, "none ran"),
    ],
)
def test_an_end_without_a_result_is_a_failure(changes, text):
    with pytest.raises(JobFailedError, match=text):
        check_succeeded(finished_job(**changes))


def test_an_empty_job_id_never_becomes_the_list_of_jobs(client):
    with pytest.raises(UsageError, match="id is missing"):
        client.job("")


def test_a_hostile_job_id_stays_one_part_of_the_path(client):
    with pytest.raises(NotFoundError):
        client.job("../jobs")
    with pytest.raises(NotFoundError):
        client.job("a/b?c#d")


def test_the_sdk_does_not_bring_the_house_with_it():
    import subprocess

    code = (
        "import sys, autotune.client\n"
        "house = ('autotune.api', 'autotune.service', 'fastapi', 'sqlalchemy', 'optuna', 'pydantic', 'httpx2')\n"
        "bad = [name for name in house if name in sys.modules]\n"
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def event(number, kind="trial.state", **data):
    return EventView(id=number, at=1.0, kind=kind, text="x", trial=None, data=data)


def test_events_are_followed_over_a_real_connection_until_the_job_ends(service, tmp_path):
    service.add(make_job(state="running"))
    record = service.events_of["demo-1"]
    record += [event(1), event(2)]
    app = create_app(service, Settings(home=tmp_path))
    app.state.feed.look_s = 0.01
    with served(app) as url, Client(url) as client:
        seen = []
        for each in client.stream_events("demo-1", after=1):
            seen.append(each)
            if each.id == 2:
                record += [event(3), event(4, "job.state", to="completed")]
    assert seen == record[1:]


def test_following_works_inside_this_process_for_a_job_that_has_ended(client, service):
    service.add(finished_job())
    service.events_of["demo-1"] = [event(1), event(2, numbers={"a": nan})]
    assert [each.id for each in client.stream_events("demo-1")] == [1, 2]


def test_following_an_unknown_job_says_so_at_once(client):
    with pytest.raises(NotFoundError, match="demo-9"):
        next(client.stream_events("demo-9"))


class Broken(httpx2.SyncByteStream):
    """A body that breaks off after what it was given."""

    def __init__(self, text):
        self.text = text

    def __iter__(self):
        yield self.text.encode()
        raise httpx2.ReadError("connection reset")


def message(number):
    return f'id: {number}\ndata: {{"id":{number},"at":1.0,"kind":"k","text":"x","trial":null,"data":{{}}}}\n\n'


def test_a_broken_stream_goes_on_where_it_broke():
    positions = []
    bodies = ["retry: 2000\n\n" + message(1) + message(2) + "id: 3\nda", None, message(3), "event: end\ndata: {}\n\n"]

    def answer(request):
        positions.append(request.headers["last-event-id"])
        body = bodies.pop(0)
        if body is None:
            raise httpx2.ConnectError("refused")
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Broken(body))

    assert [each.id for each in mocked(answer, clock=ManualClock()).stream_events("demo-1")] == [1, 2, 3]
    assert positions == ["0", "2", "2", "3"]


def test_following_gives_up_when_the_service_stays_away_too_long():
    clock = ManualClock()

    def answer(request):
        return httpx2.Response(502)

    with pytest.raises(UnreachableError):
        next(mocked(answer, clock=clock).stream_events("demo-1", patience=30))
    assert 30 <= clock.now() <= 32


def test_what_the_documentation_tells_programs_to_do_works(service, tmp_path, capsys):
    import re

    page = (Path(__file__).parents[2] / "docs/how-to/watch-and-monitor.md").read_text(encoding="utf-8")
    [snippet] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    [address] = re.findall(r"curl -N -H 'Accept: text/event-stream' http://127.0.0.1:8765(\S+)", page)
    service.add(replace(finished_job(), id="quickstart-1"))
    service.events_of["quickstart-1"] = [event(1), event(2)]
    with served(create_app(service, Settings(home=tmp_path))) as url:
        exec(compile(snippet.replace("http://127.0.0.1:8765", url), "watch-and-monitor.md", "exec"), {})  # noqa: S102
        answer = httpx2.get(url + address, headers={"Accept": "text/event-stream"}, trust_env=False)
    assert capsys.readouterr().out.splitlines() == ["1 trial.state x", "2 trial.state x"]
    assert answer.text.count("\ndata: ") == 3
