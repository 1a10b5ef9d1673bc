"""Gives each queued job a driver process, and picks up the jobs whose driver is gone."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import AutotuneError, ConflictError
from autotune.search.types import Event
from autotune.service.fairness import in_turn, use_of_teams, why_not
from autotune.service.owner import new_owner
from autotune.service.service import Service
from autotune.settings import Settings
from autotune.states import JOB_ENDS, JobState
from autotune.store.database import UnitOfWork
from autotune.store.values import JobError, Lease

logger = logging.getLogger(__name__)

TICK_S = 0.5
_QUEUED = 1000
"""Waiting jobs that are looked at, the newest."""
MAX_DEATHS = 3
"""A job whose driver died this often without a word is failed instead of being tried again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Driver:
    """A driver process and the lease that it works under."""

    process: subprocess.Popen[bytes]
    lease: Lease
    log: Path


class Supervisor:
    """Runs jobs in driver processes, one process a job.

    Args:
        service: The use cases and the store behind them.
        settings: How many jobs run at a time, and for how long a lease lasts.
    """

    def __init__(self, service: Service, settings: Settings) -> None:
        self._service = service
        self._settings = settings
        self._drivers: dict[str, Driver] = {}
        self._deaths: Counter[str] = Counter()
        self._waiting: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts supervising on a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the drivers, which checkpoint their trials and queue their jobs again, and waits for them."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._end_drivers()

    def run_one(self, job_id: str, on_tick: Callable[[], None]) -> None:
        """Runs one job to its end in the foreground.

        Args:
            job_id: A queued job.
            on_tick: Called about twice a second. What it raises ends the driver gracefully and is passed on.

        """
        try:
            self._spawn(self._lease(job_id))
        except ConflictError:
            # A service on the same database was faster: the job runs there, and we look on.
            self._look_on(job_id, on_tick)
            return
        try:
            while self._drivers:
                on_tick()
                self._service.clock.sleep(TICK_S)
                for died in self._reap():
                    self._spawn(self._lease(died))
        finally:
            self._end_drivers()
        on_tick()

    def _look_on(self, job_id: str, on_tick: Callable[[], None]) -> None:
        while JobState(self._service.job(job_id).state) not in JOB_ENDS:
            on_tick()
            self._service.clock.sleep(TICK_S)
        on_tick()

    def _lease(self, job_id: str) -> Lease:
        now = self._service.clock.now()
        with self._service.store.begin() as work:
            return work.jobs.lease(job_id, new_owner(), now, self._settings.lease_s)

    def _run(self) -> None:
        while not self._stop.wait(TICK_S):
            try:
                self._reap()
                self._service.requeue_abandoned()
                self._claim()
            except AutotuneError as error:
                # The database may be away for a while; the next round tries again.
                logger.warning("the supervisor cannot work right now: %s", error.message)

    def _claim(self) -> None:
        while len(self._drivers) < self._settings.jobs:
            with self._service.store.begin() as work:
                now = self._service.clock.now()
                turn = self._turn(work, now)
                lease = work.jobs.claim(new_owner(), now, self._settings.lease_s, turn) if turn else None
            if lease is None:
                return
            self._spawn(lease)

    def _turn(self, work: UnitOfWork, now: float) -> list[str]:
        """The queued jobs that may start, best first; says in the record of the others what they wait for."""
        queued = work.jobs.list(states=[JobState.QUEUED], limit=_QUEUED).items
        if not queued:
            return []
        teams = work.access.teams()
        used = use_of_teams(work, now) if len(queued) > 1 or teams else {}
        for job in queued:
            why = why_not(job, used, teams)
            if why is not None and self._waiting.get(job.id) != why:
                work.jobs.record(job.id, Event(at=now, kind="job.waits", text=f"waits: {why}", data={}))
                self._waiting[job.id] = why
        return [job.id for job in in_turn(queued, used, teams)]

    def _spawn(self, lease: Lease) -> None:
        directory = self._settings.job_dir(lease.job)
        directory.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "autotune.service.driver", lease.job]
        command += ["--owner", lease.owner, "--token", str(lease.token), "--parent", str(os.getpid())]
        log = directory / "driver.log"
        with log.open("ab") as output:
            # A session of its own: Ctrl-C in the terminal reaches the driver through us, once, as SIGTERM.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self._drivers[lease.job] = Driver(process=process, lease=lease, log=log)

    def _reap(self) -> list[str]:
        """Takes note of the drivers that have ended; returns the jobs whose driver died and may be replaced."""
        again: list[str] = []
        for job_id, driver in list(self._drivers.items()):
            code = driver.process.poll()
            if code is not None:
                del self._drivers[job_id]
                if self._died(job_id, driver, code):
                    again.append(job_id)
        return again

    def _died(self, job_id: str, driver: Driver, code: int) -> bool:
        """Takes back a lease that a driver left behind; says whether another driver should go on with the job."""
        now = self._service.clock.now()
        with self._service.store.begin() as work:
            if not work.jobs.revoke(job_id, driver.lease.owner):
                return False
            job = work.jobs.get(job_id)
            if job.state in JOB_ENDS:
                return False
            self._deaths[job_id] += 1
            what = (
                f"its driver was killed by {_signal_name(-code)}" if code < 0 else f"its driver ended with code {code}"
            )
            if self._deaths[job_id] < MAX_DEATHS and code < 0:
                if job.state is not JobState.QUEUED:
                    work.jobs.set_state(job_id, JobState.QUEUED, now, reason=what)
                return True
            error = JobError(kind="driver", message=f"{what}.", hint=f"The reason is at the end of {driver.log}.")
            work.jobs.set_state(job_id, JobState.FAILED, now, error=error)
            return False

    def _end_drivers(self) -> None:
        for driver in self._drivers.values():
            if driver.process.poll() is None:
                driver.process.send_signal(signal.SIGTERM)
        # The driver gives its trials the grace period; past that it is not coming back.
        for driver in self._drivers.values():
            try:
                driver.process.wait(timeout=2 * self._settings.grace_s + 30)
            except subprocess.TimeoutExpired:
                driver.process.kill()
                driver.process.wait()
        self._reap()


def run_embedded(service: Service, settings: Settings, job_id: str, on_tick: Callable[[], None]) -> None:
    """Runs one job to its end in the foreground; see ``Supervisor.run_one``."""
    Supervisor(service, settings).run_one(job_id, on_tick)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
