"""The supervisor with real processes in the place of drivers: small scripts that behave as a driver may."""

from __future__ import annotations

import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autotune.errors import UnreachableError
from autotune.search.coordinator import Coordinator
from autotune.service.service import Service
from autotune.service.spaces import resolve_document
from autotune.service.spawning import Drivers
from autotune.service.supervisor import Supervisor
from autotune.settings import Settings
from autotune.states import JobState
from autotune.store import SqlBook, Store

# A driver dies with the thread that started it, as the real one does.
HEAD = """
import argparse, ctypes, os, pathlib, signal, sys, threading
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
parser = argparse.ArgumentParser()
parser.add_argument("job")
for name in ("owner", "token", "parent", "tries"):
    parser.add_argument("--" + name)
options = parser.parse_args()
here = pathlib.Path(sys.argv[0]).parent
def note(word):
    with (here / "notes").open("a") as file:
        file.write(word + "\\n")
note("start")
"""
WAITS = """
def told(number, frame):
    note(signal.Signals(number).name)
    if number == signal.SIGTERM:
        threading.Event().wait(0.5)
        note("checkpoint")
        sys.exit(0)
signal.signal(signal.SIGTERM, told)
signal.signal(signal.SIGUSR1, told)
note("ready")
while True:
    signal.pause()
"""


class Stage:
    """A service, a supervisor over it, and what its drivers note down."""

    def __init__(self, root: Path, source: str) -> None:
        self.root = root
        self.settings = Settings(home=root / "home", grace_s=1.0)
        self.settings.prepare_home()
        self.store = Store(self.settings.study_database)
        self.store.migrate()
        self.service = Service(self.settings, self.store)
        self.job = self.service.submit(source, "space.yaml")[0].id
        self.supervisor: Supervisor | None = None

    def start(self, behaviour: str, **settings: float) -> Supervisor:
        script = self.root / "driver.py"
        script.write_text(HEAD + textwrap.dedent(behaviour))
        changed = self.settings.model_copy(update=settings)
        self.supervisor = Supervisor(self.service, changed, Drivers((sys.executable, "-S", str(script)), ahead=False))
        self.supervisor.start()
        return self.supervisor

    def notes(self) -> list[str]:
        path = self.root / "notes"
        return path.read_text().split() if path.exists() else []

    def state(self) -> str:
        return self.service.job(self.job).state

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        pause = threading.Event()
        for _ in range(600):
            if condition():
                return
            pause.wait(0.1)
        raise AssertionError(f"not within a minute: {what}; {self.notes()}")


@pytest.fixture
def stage(tmp_path: Path, source: str) -> Iterator[Stage]:
    stage = Stage(tmp_path, source)
    yield stage
    if stage.supervisor is not None:
        stage.supervisor.stop()
    stage.store.close()


def test_a_driver_that_is_told_to_go_has_the_time_to_write_its_checkpoint(stage):
    supervisor = stage.start(WAITS)
    stage.wait(lambda: "ready" in stage.notes(), "the driver runs")
    supervisor.stop()
    assert stage.notes() == ["start", "ready", "SIGTERM", "checkpoint"]


def test_running_trials_may_first_get_to_their_end_where_that_is_set(stage):
    supervisor = stage.start(WAITS, drain_s=1.0)
    stage.wait(lambda: "ready" in stage.notes(), "the driver runs")
    supervisor.stop()
    assert stage.notes() == ["start", "ready", "SIGUSR1", "SIGTERM", "checkpoint"]


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(1)"])
def test_a_driver_that_dies_again_and_again_without_getting_anywhere_fails_its_job(stage, end):
    stage.start(end)
    stage.wait(lambda: stage.state() == "failed", "the job has failed")
    error = stage.service.job(stage.job).error
    assert error is not None
    assert "for the third time in a row with nothing achieved in between" in error.message
    assert "driver.log" in error.hint
    assert stage.notes() == ["start"] * 3


def test_a_job_that_is_failed_so_leaves_no_trial_running(stage):
    with stage.service.store.begin() as work:
        lease = work.jobs.lease(stage.job, "elsewhere/1/x", stage.service.clock.now(), 30.0)
        record, study = work.jobs.get(stage.job), work.jobs.studies(stage.job)[0]
    resolved = resolve_document(record.document, record.file)
    book = SqlBook(stage.service.store, study.id, lease)
    search = Coordinator(resolved.space, resolved.base, book, fence="f", total_steps=resolved.steps)
    search.next_trial(stage.service.clock.now())
    with stage.service.store.begin() as work:
        work.jobs.revoke(stage.job, lease.owner)
    stage.start("sys.exit(1)")
    stage.wait(lambda: stage.state() == "failed", "the job has failed")
    trial = stage.service.trial(stage.job, 0)
    assert trial.state == "cancelled"
    assert "for the third time in a row" in trial.reason.text


def test_a_job_that_gets_on_between_the_deaths_of_its_drivers_goes_on(stage):
    stage.start(f"""
        sys.path[:0] = {[path for path in sys.path if path]!r}
        from autotune.search.types import Attempt, Trial
        from autotune.states import TrialState
        from autotune.store import SqlBook, Store
        from autotune.store.values import Lease
        store = Store({stage.store.url.render_as_string()!r})
        lease = Lease(job=options.job, owner=options.owner, token=int(options.token), expires=0.0)
        with store.read() as work:
            study = work.jobs.studies(options.job)[0].id
        number = int(options.token)
        attempt = Attempt(trial=0, number=number, token="t%d" % number)
        trial = Trial(number=0, state=TrialState.RUNNING, source="default", params={{}}, config={{}}, attempt=attempt)
        from dataclasses import replace
        SqlBook(store, study, lease).save(replace(trial, cost_s=float(number)))
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    stage.wait(lambda: len(stage.notes()) >= 5, "five drivers have died")
    assert stage.state() == "queued"


def test_a_job_in_the_foreground_goes_on_when_the_database_was_away_as_its_driver_died(stage, monkeypatch):
    script = stage.root / "driver.py"
    script.write_text(HEAD + "os.kill(os.getpid(), signal.SIGKILL)")
    supervisor = Supervisor(stage.service, stage.settings, Drivers((sys.executable, "-S", str(script)), ahead=False))
    begin, away = stage.store.begin, iter([True, True])

    def tick() -> None:
        if stage.notes() == ["start"] and next(away, False):
            monkeypatch.setattr(stage.store, "begin", unreachable)
        else:
            monkeypatch.setattr(stage.store, "begin", begin)

    def unreachable():
        raise UnreachableError("the database does not answer.")

    supervisor.run_one(stage.job, tick)
    assert stage.notes() == ["start"] * 3
    assert stage.state() == "failed"


def test_a_driver_that_met_an_outage_is_followed_by_another_one_later(stage):
    stage.start("""
        note("tries=" + options.tries)
        sys.exit(75)
    """)
    stage.wait(lambda: "tries=2" in stage.notes(), "the third driver has started")
    assert stage.notes()[:6] == ["start", "tries=0", "start", "tries=1", "start", "tries=2"]
    assert stage.state() == "queued"


def test_a_job_whose_driver_cannot_even_start_is_given_back_and_tried_again(stage):
    jobs = stage.settings.root / "jobs"
    jobs.rename(stage.root / "away")
    jobs.write_text("in the way")  # as a disk that is full: nothing can be created
    stage.start(WAITS)

    def lease() -> tuple[int, str | None]:
        with stage.store.read() as work:
            row = work.connection.exec_driver_sql("SELECT lease_token, lease_owner FROM autotune_jobs").one()
        return row[0], row[1]

    stage.wait(lambda: lease()[0] >= 1 and lease()[1] is None, "the lease was taken and given back")
    assert stage.state() == JobState.QUEUED
    jobs.unlink()
    stage.wait(lambda: "ready" in stage.notes(), "a driver runs")
