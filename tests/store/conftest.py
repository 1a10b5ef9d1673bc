"""Migrated databases for the tests of the store: SQLite files copied from a template, and a private PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import text

from autotune.search.types import Attempt, Trial
from autotune.states import JobState, TrialState
from autotune.store import Job, Lease, NewJob, SqlBook, Store
from tests.postgres import postgres_server


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "autotune.db"
    store = Store(f"sqlite:///{path}")
    store.migrate()
    store.close()
    return path


@pytest.fixture
def url(template: Path, tmp_path: Path) -> str:
    shutil.copy(template, tmp_path / "autotune.db")
    return f"sqlite:///{tmp_path / 'autotune.db'}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = Store(url)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[], str]]:
    """Starts a private server and hands out URLs of fresh, empty databases."""
    with postgres_server() as server:
        yield server.fresh


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    return request.getfixturevalue("postgres")()


@pytest.fixture(scope="session")
def shared_postgres(postgres: Callable[[], str]) -> Iterator[Store]:
    """One migrated database for all tests: creating one for each takes longer than the tests."""
    opened = Store(postgres())
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def any_store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """A migrated, empty store of each kind."""
    if request.param == "sqlite":
        yield request.getfixturevalue("store")
        return
    shared: Store = request.getfixturevalue("shared_postgres")
    with shared.begin() as work:
        work.connection.execute(text("TRUNCATE autotune_jobs RESTART IDENTITY CASCADE"))
    yield shared


class Desk:
    """What a driver has in its hands: a running job, its lease and its book."""

    def __init__(self, store: Store, stages: Sequence[str] = ()) -> None:
        self.store = store
        with store.begin() as work:
            self.job: Job = work.jobs.add(NewJob(name="quick", document={"name": "quick"}, stages=stages), 1.0)
            self.lease: Lease = work.jobs.lease(self.job.id, "driver-a", 2.0, 30.0)
            work.jobs.set_state(self.job.id, JobState.RUNNING, 3.0, lease=self.lease)
            self.study = work.jobs.studies(self.job.id)[0]
        self.book = SqlBook(store, self.study.id, self.lease)


@pytest.fixture
def desk(store: Store) -> Desk:
    return Desk(store)


@pytest.fixture
def make_desk() -> Callable[..., Desk]:
    return Desk


@pytest.fixture
def make_trial() -> Callable[..., Trial]:
    def make(number: int = 0, **changes: object) -> Trial:
        values: dict[str, object] = {
            "number": number,
            "state": TrialState.RUNNING,
            "source": "sampler",
            "params": {"trainer.optim.lr": 1e-5},
            "config": {"trainer.optim.lr": 1e-5, "trainer.seed": 0},
            "attempt": Attempt(trial=number, number=1, token=f"token-{number}"),
            "created_at": 100.0,
            "started_at": 101.0,
        }
        return Trial(**(values | changes))  # type: ignore[arg-type]

    return make
