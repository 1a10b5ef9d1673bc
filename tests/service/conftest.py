"""A service on a database of its own, and a hand that plays the driver of a job without any process."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.clock import ManualClock
from autotune.search.coordinator import Coordinator
from autotune.search.types import EndKind, Launch, Outcome, Stop
from autotune.service.service import Service
from autotune.service.spaces import resolve_document
from autotune.settings import Settings
from autotune.states import JobState
from autotune.store import SqlBook, Store

SOURCE = textwrap.dedent("""
    name: small
    description: Two parameters of a tiny model
    trainer: {overrides: {data: digits, model: tiny}}
    search:
      lr: {float: [1e-5, 1e-3], log: true}
      ppo_epochs: {int: [1, 4]}
    objective: {metric: eval/reward}
    constraints: ["kl/actor_ref <= 0.3"]
    prune:
      - kl_ceiling: {above: 0.4, patience: 2}
    budget: {trials: 4, parallel: 2, steps: 4}
    start_from: [default]
""")


@pytest.fixture
def source() -> str:
    return SOURCE


@pytest.fixture
def service(tmp_path: Path) -> Service:
    settings = Settings(home=tmp_path / "home")
    settings.prepare_home()
    store = Store(settings.study_database)
    store.migrate()
    return Service(settings, store, ManualClock(1000.0))


@pytest.fixture
def drive() -> Callable[[Service, str], Coordinator]:
    def run(service: Service, job_id: str, *, until: JobState = JobState.COMPLETED) -> Coordinator:
        clock = service.clock
        with service.store.begin() as work:
            job = work.jobs.get(job_id)
            lease = work.jobs.lease(job_id, "tester/0/x", clock.now(), 60.0)
            work.jobs.set_state(job_id, JobState.RUNNING, clock.now(), lease=lease)
            study = work.jobs.studies(job_id)[0]
        resolved = resolve_document(job.document, job.file)
        book = SqlBook(service.store, study.id, lease)
        coordinator = Coordinator(
            resolved.space,
            resolved.base,
            book,
            fence="f",
            total_steps=resolved.steps,
            seed_path=resolved.seed_path,
        )
        while isinstance(launch := coordinator.next_trial(clock.now()), Launch):
            _play(coordinator, launch, resolved.steps, clock)
        with service.store.begin() as work:
            work.jobs.set_state(job_id, until, clock.now(), lease=lease)
            work.jobs.release(lease)
        return coordinator

    return run


def _play(coordinator: Coordinator, launch: Launch, steps: int, clock: ManualClock) -> None:
    epochs = launch.config["trainer.ppo_epochs"]
    for step in range(1, steps + 1):
        clock.advance(1.0)
        luck = launch.config["trainer.seed"] % 100 / 1000
        metrics = {"eval/reward": epochs + 0.1 * step + luck, "kl/actor_ref": 0.12 * epochs}
        if isinstance(coordinator.on_metrics(launch.attempt, step, metrics, float(step), clock.now()), Stop):
            break
    coordinator.on_end(launch.attempt, Outcome(kind=EndKind.FINISHED, last_step=steps, cost_s=steps), clock.now())
