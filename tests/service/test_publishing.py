"""An observer that fails harms nobody, and has everything in the end."""

import threading

import pytest

from autotune.search.book import History, MemoryBook
from autotune.search.types import Trial
from autotune.service.publishing import PublishingBook
from autotune.states import JobState, TrialState


class Elsewhere:
    """What an observer writes to; it is away for some calls."""

    def __init__(self, away: int = 0) -> None:
        self.away = away
        self.trials: dict[int, TrialState] = {}
        self.closed: list[JobState] = []
        self.built = 0
        self.heard = threading.Event()

    def touch(self) -> None:
        if self.away:
            self.away -= 1
            raise ConnectionError("nobody listens")

    def build(self) -> "Observer":
        self.built += 1
        return Observer(self)


class Observer:
    def __init__(self, where: Elsewhere) -> None:
        where.touch()
        self._where = where

    def on_save(self, trial, points):
        self._where.touch()
        self._where.trials[trial.number] = trial.state
        self._where.heard.set()

    def reconcile(self, history: History):
        self._where.touch()
        self._where.trials = {trial.number: trial.state for trial in history.trials}

    def close(self, best, state):
        self._where.touch()
        self._where.closed.append(state)


def trial(number, state=TrialState.RUNNING):
    return Trial(number=number, state=state, source="sampler", params={}, config={})


@pytest.fixture
def publish():
    def open_(where: Elsewhere) -> PublishingBook:
        return PublishingBook(MemoryBook(), {"elsewhere": where.build}, catch_up_s=(0.01, 0.05))

    return open_


def test_an_observer_hears_every_save(publish):
    where = Elsewhere()
    book = publish(where)
    for number in range(3):
        book.save(trial(number))
    assert book.close(None, JobState.COMPLETED, 30.0)
    assert where.trials == dict.fromkeys(range(3), TrialState.RUNNING)
    assert (where.closed, where.built) == ([JobState.COMPLETED], 1)


@pytest.mark.parametrize("away", range(1, 6))
def test_one_that_was_away_is_built_anew_and_has_everything_in_the_end(publish, away):
    where = Elsewhere()
    book = publish(where)
    book.save(trial(0))
    assert where.heard.wait(30)
    where.away = away
    for number in range(1, 4):
        book.save(trial(number))
    book.save(trial(2, TrialState.COMPLETED))
    assert book.close(None, JobState.COMPLETED, 30.0)
    assert where.trials == dict.fromkeys((0, 1, 3), TrialState.RUNNING) | {2: TrialState.COMPLETED}
    assert where.closed == [JobState.COMPLETED]
    assert where.built > 1


def test_one_that_is_away_when_it_is_closed_is_closed_later(publish):
    where = Elsewhere()
    book = publish(where)
    book.save(trial(0))
    assert where.heard.wait(30)
    where.away = 3
    assert book.close(None, JobState.COMPLETED, 30.0)
    assert where.closed == [JobState.COMPLETED]


def test_one_that_stays_away_ends_nothing_and_is_told_of(publish):
    book = publish(Elsewhere(away=1_000_000))
    book.save(trial(0))
    assert not book.close(None, JobState.COMPLETED, 0.3)
    assert [one.number for one in book.load().trials] == [0]
