"""An ended job is shown from memory for as long as its row is what it was."""

from dataclasses import replace

import pytest

from autotune.service import kept
from autotune.service.kept import KeptViews
from autotune.states import JobState
from autotune.store import NewJob, Store


@pytest.fixture
def job(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 'kept.db'}")
    store.migrate()
    with store.begin() as work:
        yield work.jobs.add(NewJob(name="kept", document={}), 1.0)
    store.close()


def test_a_job_at_work_is_looked_at_each_time(job):
    made = iter(["one", "two"])
    views = KeptViews()
    assert [views.view(replace(job, state=JobState.RUNNING), lambda: next(made)) for _ in range(2)] == ["one", "two"]


def test_an_ended_job_is_looked_at_once_until_it_changes(job):
    made = iter(["one", "two", "three"])
    views = KeptViews()
    ended = replace(job, state=JobState.COMPLETED, ended_at=2.0)

    def see(one):
        return views.view(one, lambda: next(made))

    assert [see(ended), see(replace(ended)), see(replace(ended, ended_at=3.0))] == ["one", "one", "two"]
    assert see(replace(ended, ended_at=3.0, priority=5)) == "three"


def test_only_so_many_are_remembered(job, monkeypatch):
    monkeypatch.setattr(kept, "_MOST", 2)
    views, seen = KeptViews(), []
    for name in ("a", "b", "a", "c", "a", "b"):
        ended = replace(job, id=name, state=JobState.COMPLETED)
        views.view(ended, lambda name=name: seen.append(name) or name)
    assert seen == ["a", "b", "c", "b"]
