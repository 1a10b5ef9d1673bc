"""Parts of a working service are killed at random moments; in the end nothing is lost, nothing is there twice."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator

import pytest

from tests.e2e.chaos.audit import Audit, mirrored
from tests.e2e.chaos.world import World
from tests.e2e.ray_cluster import ray_cluster
from tests.e2e.support import Home, wait_until
from tests.postgres import postgres_server

KILLS = int(os.environ.get("CHAOS_KILLS", "4"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))
AT_WORK = 2
TRIALS = 6

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500 + 90 * KILLS)]


@pytest.fixture(scope="module")
def world(home: Home, free_port: int) -> Iterator[World]:
    home.path.mkdir(parents=True)
    with postgres_server() as postgres, ray_cluster() as cluster:
        world = World(home, postgres, cluster, free_port, random.Random(SEED))
        world.start_service()
        try:
            yield world
        finally:
            world.stop_service()


@pytest.fixture(scope="module")
def audit(world: World) -> Audit:
    pause = threading.Event()
    dice = random.Random(SEED + 1)
    while sum(world.killed.values()) < KILLS:
        for _ in range(AT_WORK - len(world.unfinished())):
            world.submit(TRIALS)
        pause.wait(dice.uniform(0.2, 5.0))
        world.strike()
        print(dict(world.killed), flush=True)
    wait_until(lambda: not world.unfinished(), 600 + 20 * KILLS, "every job has ended")
    wait_until(lambda: mirrored(world.database), 400, "Optuna and MLflow have caught up")
    world.stop_service()
    found = Audit(world)
    print(
        f"kills survived: {sum(world.killed.values())} {dict(world.killed)}; "
        f"jobs {len(world.jobs)}, trials {found.trials}; "
        f"results lost: {len(found.lost)}, duplicates: {len(found.duplicates)}, orphans: {len(found.orphans)}; "
        f"seconds charged: {found.charged_s:.1f}, used by the programs: {found.used_s:.1f}"
    )
    return found


def test_every_job_has_completed_or_says_why_not(audit: Audit):
    assert audit.unexplained == []


def test_every_finished_result_is_in_the_store_in_optuna_and_in_mlflow(audit: Audit):
    assert audit.lost == []


def test_no_result_is_anywhere_twice(audit: Audit):
    assert audit.duplicates == []


def test_nothing_runs_without_an_owner(audit: Audit):
    assert audit.orphans == []


def test_budgets_are_what_was_used(audit: Audit):
    assert audit.budgets == []
