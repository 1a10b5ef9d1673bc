"""Fills a study database for the load benchmark: ended jobs with trials, curves, events and one Optuna study."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass

from sqlalchemy import Connection, create_engine, insert, select, text

from autotune.search.types import Attempt, Event, Point, Trial
from autotune.spec.types import Space
from autotune.spec.values import FlatConfig, JsonValue
from autotune.states import JobState, TrialState
from autotune.store import NewJob, Store, clean, rows
from autotune.store import models as tables
from autotune.store.values import Job
from autotune.store.writing import save_points

METRICS = (
    *("reward/mean", "reward/std", "reward/max", "eval/reward", "kl/actor_ref", "kl/old_new", "kl/coef"),
    *("actor/loss", "actor/clip_fraction", "actor/entropy", "actor/grad_norm", "actor/lr", "critic/loss"),
    *("critic/explained_variance", "response/length_mean", "perf/tokens_per_s", "perf/step_s"),
)
"""What a trainer reports in each step; its evaluation only in every tenth."""
SPACE = """
name: load
trainer: {backend: native, config: config, overrides: {data: digits, model: tiny}}
resources: {cpus: 1, gpus: 0}
search:
  algorithm.clip_ratio: {float: [0.05, 0.4]}
  algorithm.kl_ctrl.kl_coef: {float: [1e-3, 2e-1], log: true}
  trainer.optim.lr: {float: [1e-5, 5e-3], log: true}
objective: {metric: eval/reward, direction: maximize}
constraints: ["kl/actor_ref <= 0.3"]
budget: {trials: 10000, parallel: 4, steps: 100}
"""
_BATCH = 20
"""Trials whose points are written in one statement's worth of memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much is stored.

    Attributes:
        trials: Of each job.
        steps: Points of each trial.
    """

    jobs: int
    trials: int
    steps: int


FULL = Size(jobs=20, trials=500, steps=100)
QUICK = Size(jobs=4, trials=50, steps=50)


def point(step: int, place: random.Random, now: float) -> Point:
    """One training step's report."""
    metrics: dict[str, float | None] = {name: place.random() for name in METRICS}
    if step % 10:
        del metrics["eval/reward"]
    return Point(step=step, time=now, metrics=metrics)


def ended_trial(number: int, config: FlatConfig, steps: int, place: random.Random) -> Trial:
    """A trial that was completed or stopped."""
    params = {
        "algorithm.clip_ratio": place.uniform(0.05, 0.4),
        "algorithm.kl_ctrl.kl_coef": math.exp(place.uniform(math.log(1e-3), math.log(2e-1))),
        "trainer.optim.lr": math.exp(place.uniform(math.log(1e-5), math.log(5e-3))),
    }
    now = time.time()
    return Trial(
        number=number,
        state=TrialState.COMPLETED if place.random() < 0.5 else TrialState.PRUNED,
        source="sampler",
        params=params,
        config={**config, **params},
        attempt=Attempt(trial=number, number=1, token=f"token-{number}"),
        last_step=steps,
        value=place.random(),
        violations={"kl/actor_ref <= 0.3": place.random() - 0.9},
        cost_s=float(steps),
        created_at=now,
        started_at=now,
        ended_at=now + steps,
    )


def fill(store: Store, size: Size, document: dict[str, JsonValue], config: FlatConfig) -> list[str]:
    """Stores the jobs; returns their ids."""
    place = random.Random(0)
    found = []
    for number in range(size.jobs):
        now = time.time()
        with store.begin() as work:
            job = work.jobs.add(NewJob(name=f"load-{number}", document=document, source=SPACE, file="load.yaml"), now)
            study = work.jobs.studies(job.id)[0].id
            _trials(work.connection, study, size, config, place)
            for trial in range(size.trials):
                event = Event(
                    at=now, kind="trial.state", text="running -> completed", trial=trial, data={"to": "completed"}
                )
                work.jobs.record(job.id, event)
            for state in (JobState.RUNNING, JobState.COMPLETED):
                work.jobs.set_state(job.id, state, now)
        found.append(job.id)
    return found


def settle(store: Store) -> None:
    """Does at once what PostgreSQL does by itself in the minutes after so much was written: it is seldom that young."""
    if store.url.get_backend_name() != "postgresql":
        return
    engine = create_engine(store.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("VACUUM (ANALYZE)"))
        connection.execute(text("CHECKPOINT"))
    engine.dispose()


def running_job(store: Store, document: dict[str, JsonValue]) -> Job:
    """A job at work, for whoever reports new points."""
    with store.begin() as work:
        job = work.jobs.add(NewJob(name="at-work", document=document, source=SPACE, file="load.yaml"), time.time())
        work.jobs.lease(job.id, "benchmark", time.time(), 1e6)
        return work.jobs.set_state(job.id, JobState.RUNNING, time.time())


def _trials(connection: Connection, study: int, size: Size, config: FlatConfig, place: random.Random) -> None:
    for first in range(0, size.trials, _BATCH):
        numbers = range(first, min(first + _BATCH, size.trials))
        values = []
        for number in numbers:
            trial = ended_trial(number, config, size.steps, place)
            last = clean.numbers(point(10, place, 0.0).metrics)
            values.append(
                {"study": study, "number": number, **rows.fixed_values(trial), **rows.moving_values(trial, last)}
            )
        connection.execute(insert(tables.trials), values)
        own = select(tables.trials.c.id).where(tables.trials.c.study == study, tables.trials.c.number.in_(numbers))
        for identifier in connection.execute(own).scalars().all():
            new = [point(step, place, float(step)) for step in range(1, size.steps + 1)]
            save_points(connection, identifier, new, [clean.numbers(one.metrics) for one in new])


def mirror(url: str, store: Store, job: str, space: Space) -> str:
    """Mirrors one job into an Optuna study, as a driver does; returns the study's name."""
    from autotune.store.optuna_mirror import OptunaMirror

    with store.read() as work:
        study = work.jobs.studies(job)[0]
        records = work.trials.list(job)
        curves = {one.trial: one for one in work.trials.curves(job, metrics=[space.objective.metric])}
    view = OptunaMirror(
        url, study.name, objective=space.objective, parameters=space.search, steps=space.budget.steps or 1
    )
    for record in records:
        curve = curves.get(record.trial.number)
        values = zip(curve.steps, curve.metrics[space.objective.metric], strict=True) if curve else ()
        points = [Point(step=step, time=0.0, metrics={space.objective.metric: value}) for step, value in values]
        view.on_save(record.trial, points)
    return study.name
