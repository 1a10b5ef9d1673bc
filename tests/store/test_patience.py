import pytest
from sqlalchemy import event

from autotune.clock import ManualClock
from autotune.errors import ConflictError, UnreachableError
from autotune.search.types import Event, Point
from autotune.store import SqlBook
from autotune.store.patience import Patience


class Outage:
    """Fails so often, then answers."""

    def __init__(self, times: int, error: type[Exception] = UnreachableError) -> None:
        self.times, self.calls, self._error = times, 0, error

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self.times:
            raise self._error("the database does not answer.")
        return "done"


def test_what_needs_the_database_is_done_once_it_answers_again():
    clock, outage = ManualClock(0.0), Outage(20)
    assert Patience(clock)(outage) == "done"
    assert outage.calls == 21
    assert clock.now() < 120, "the pauses grow, but not without end"


def test_other_errors_are_not_waited_for():
    outage = Outage(1, ConflictError)
    with pytest.raises(ConflictError):
        Patience(ManualClock(0.0))(outage)
    assert outage.calls == 1


def test_patience_ends():
    clock = ManualClock(0.0)
    with pytest.raises(UnreachableError):
        Patience(clock, limit_s=60.0)(Outage(10_000))
    assert 60 <= clock.now() < 70


def test_somebody_who_is_told_to_go_waits_no_longer():
    clock = ManualClock(0.0)
    with pytest.raises(UnreachableError):
        Patience(clock, give_up=lambda: clock.now() >= 3.0)(Outage(10_000))
    assert clock.now() < 4.0


class Deaf(SqlBook):
    """A book whose connection breaks just after each first commit, before it hears of it."""

    broken = False

    def _save(self, *args, **options):
        super()._save(*args, **options)
        self.broken = not self.broken
        if self.broken:
            raise UnreachableError("server closed the connection unexpectedly.")


def test_a_save_that_was_committed_without_a_word_is_there_once(store, make_desk, make_trial):
    desk = make_desk(store)
    book = Deaf(store, desk.study.id, desk.lease, patience=Patience(ManualClock(0.0)))
    events = [Event(at=5.0, kind="trial.state", text="running", trial=0, data={"state": "running"})]
    book.save(make_trial(), [], events)
    book.save(make_trial(last_step=1), [Point(step=1, time=6.0, metrics={"loss": 0.5})])
    history = desk.book.load()
    assert [(trial.number, trial.last_step) for trial in history.trials] == [(0, 1)]
    assert [point.step for point in history.curves[0]] == [1]
    with store.read() as work:
        kinds = [record.event.kind for record in work.trials.events(desk.job.id)]
        (attempt,) = work.trials.attempts(desk.job.id, 0)
    assert kinds.count("trial.state") == 1
    assert attempt.started_at == 5.0


class Cleaner(ManualClock):
    """A clock during whose ticks somebody makes room on the disk."""

    def __init__(self, make_room) -> None:
        super().__init__(0.0)
        self.slept = 0
        self._make_room = make_room

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.slept += 1
        if self.slept == 5:
            self._make_room()


def test_a_save_on_a_full_disk_waits_for_room_and_is_whole(store, make_desk, make_trial):
    desk = make_desk(store)
    with store.read() as work:
        pages = work.connection.exec_driver_sql("PRAGMA page_count").scalar()
    room = {"pages": pages}

    def limit(connection, _):
        connection.execute(f"PRAGMA max_page_count={room['pages']}")

    def make_room():
        room["pages"] = 1_000_000
        store.engine.dispose()

    event.listen(store.engine, "connect", limit)
    store.engine.dispose()
    with pytest.raises(UnreachableError, match="disk is full"):
        desk.book.save(make_trial(config={"text": "x" * 200_000}))
    clock = Cleaner(make_room)
    book = SqlBook(store, desk.study.id, desk.lease, patience=Patience(clock))
    book.save(make_trial(config={"text": "x" * 200_000}), [Point(step=0, time=1.0, metrics={"loss": 1.0})])
    assert clock.slept >= 5
    history = desk.book.load()
    assert [len(trial.config["text"]) for trial in history.trials] == [200_000]
    assert len(history.curves[0]) == 1
