"""Who works on the service during the load benchmark: clients that read, and a driver that reports points."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from dataclasses import dataclass

import httpx2

from autotune.search.types import Attempt, Trial
from autotune.states import TrialState
from autotune.store import SqlBook, Store
from benchmarks.api_load_store import point

_THINK_S = 0.5
"""What a client waits between two requests, on average; the live page asks once in two seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """What there is to ask for."""

    jobs: list[str]
    trials: int


def addresses(stored: Stored, place: random.Random) -> dict[str, str]:
    """One request of each kind, for a job and a trial by chance."""
    job, trial = place.choice(stored.jobs), place.randrange(stored.trials)
    after = place.randrange(max(1, stored.trials - 100))
    return {
        "list jobs": "/v1/jobs?limit=50",
        "list trials": f"/v1/jobs/{job}/trials?limit=100&cursor={after}",
        "show job": f"/v1/jobs/{job}",
        "show trial": f"/v1/jobs/{job}/trials/{trial}",
        "curves of one trial": f"/v1/jobs/{job}/curves?trial={trial}",
        "events": f"/v1/jobs/{job}/events?limit=100",
    }


def ask(url: str, stored: Stored, rounds: int, seed: int) -> dict[str, list[float]]:
    """One client, one request after the other; returns the seconds of each answer by kind."""
    place, taken = random.Random(seed), defaultdict(list)
    with httpx2.Client(base_url=url, timeout=60.0) as client:
        for _ in range(rounds):
            for kind, address in addresses(stored, place).items():
                taken[kind].append(_timed(client, address))
    return dict(taken)


def read_together(url: str, stored: Stored, clients: int, seconds: float) -> dict[str, list[float]]:
    """Clients that each ask, read the answer and ask again after a while; returns seconds by kind."""
    taken, lock, until = defaultdict(list), threading.Lock(), time.monotonic() + seconds

    def work(seed: int) -> None:
        place = random.Random(seed)
        with httpx2.Client(base_url=url, timeout=60.0) as client:
            while time.monotonic() < until:
                time.sleep(place.uniform(0.0, 2 * _THINK_S))
                kind, address = place.choice(sorted(addresses(stored, place).items()))
                passed = _timed(client, address)
                with lock:
                    taken[kind].append(passed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dict(taken)


def report_points(database: str, job: str, lease_token: int, seconds: float) -> float:
    """A driver's book: one transaction for each step of each of four trials in turn; returns points per second."""
    from autotune.store.values import Lease

    store, place = Store(database), random.Random(1)
    with store.read() as work:
        study = work.jobs.studies(job)[0].id
    book = SqlBook(store, study, Lease(job=job, owner="benchmark", token=lease_token, expires=0.0))
    now, step = time.time(), 0
    trials = [
        Trial(
            number=number,
            state=TrialState.RUNNING,
            source="sampler",
            params={"trainer.optim.lr": 0.001},
            config={},
            attempt=Attempt(trial=number, number=1, token=f"token-{number}"),
            created_at=now,
            started_at=now,
        )
        for number in range(4)
    ]
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        step += 1
        for trial in trials:
            book.save(trial, [point(step, place, time.time())])
    rate = step * len(trials) / (time.monotonic() - began)
    store.close()
    return rate


def _timed(client: httpx2.Client, address: str) -> float:
    began = time.perf_counter()
    answer = client.get(address)
    passed = time.perf_counter() - began
    if answer.status_code != 200:
        raise RuntimeError(f"{address} answered {answer.status_code}: {answer.text[:300]}")
    return passed
