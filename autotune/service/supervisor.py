"""Gives each queued job a driver process, and picks up the jobs whose driver is gone.

Drivers die with the thread that started them (the parent-death signal follows the thread, not the process), so the
thread that starts them also ends them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import AutotuneError, ConflictError, UnreachableError
from autotune.search.types import Event
from autotune.service.ending import end_running
from autotune.service.fairness import in_turn, use_of_teams, why_not
from autotune.service.owner import TRY_AGAIN, new_owner
from autotune.service.service import Service
from autotune.service.spawning import Drivers
from autotune.settings import Settings
from autotune.states import JOB_ENDS, JobState
from autotune.store.database import UnitOfWork
from autotune.store.values import JobError, Lease

logger = logging.getLogger(__name__)

TICK_S = 0.5
_QUEUED = 1000
"""Waiting jobs that are looked at, the newest."""
MAX_DEATHS = 3
"""A job whose driver died this often in a row, with nothing achieved in between, is failed."""
_LONGEST_PAUSE_S = 60.0
MIRROR_S = 10.0
"""How often is looked for ended jobs whose mirrors may lack something."""
_MIRRORING = (sys.executable, "-m", "autotune.service.mirroring")


@dataclass(frozen=True, kw_only=True, slots=True)
class Driver:
    """A driver process and the lease that it works under."""

    process: subprocess.Popen[bytes]
    lease: Lease
    log: Path


@dataclass(kw_only=True, slots=True)
class _Trouble:
    """What befell the drivers of a job, one after the other.

    Attributes:
        deaths: Drivers that died since the job last got anywhere.
        outages: Drivers that met an outage in a row.
        not_before: When the next driver may start, epoch seconds.
        achieved: What the job had achieved at the last death.
    """

    deaths: int = 0
    outages: int = 0
    not_before: float = 0.0
    achieved: tuple[object, ...] = ()


class Supervisor:
    """Runs jobs in driver processes, one process a job.

    Args:
        service: The use cases and the store behind them.
        settings: How many jobs run at a time, and for how long a lease lasts.
        starts: Starts the drivers; without it one is made.
    """

    def __init__(self, service: Service, settings: Settings, starts: Drivers | None = None) -> None:
        self._service = service
        self._settings = settings
        self._starts = starts or Drivers(ahead=settings.warm_s > 0)
        self._drivers: dict[str, Driver] = {}
        self._trouble: dict[str, _Trouble] = {}
        self._waiting: dict[str, str] = {}
        self._mirroring: tuple[str, subprocess.Popen[bytes]] | None = None
        self._mirror_at = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts supervising on a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the drivers, which checkpoint their trials and queue their jobs again, and waits for them.

        With ``AUTOTUNE_DRAIN_S`` the running trials may first go on to their end for so long.
        """
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

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
            again = False
            while self._drivers or again:
                on_tick()
                self._service.clock.sleep(TICK_S)
                try:
                    again = job_id in self._reap() or again
                    if again and self._service.clock.now() >= self._troubled(job_id).not_before:
                        self._spawn(self._lease(job_id))
                        again = False
                except UnreachableError as error:
                    logger.warning("the supervisor cannot work right now: %s", error.message)
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
        try:
            while not self._stop.wait(TICK_S):
                self._safely(self._reap)
                self._safely(self._service.requeue_abandoned)
                self._safely(self._claim)
                self._safely(self._mirror)
                if len(self._drivers) < self._settings.jobs:
                    self._safely(self._starts.get_ready)
        finally:
            self._end_drivers()

    def _safely(self, act: Callable[[], object]) -> None:
        """The database may be away for a while, the disk full, no process left: the next round tries again."""
        try:
            act()
        except AutotuneError as error:
            logger.warning("the supervisor cannot work right now: %s", error.message)
        except Exception:
            logger.exception("the supervisor cannot work right now")

    def _claim(self) -> None:
        while len(self._drivers) < self._settings.jobs and not self._stop.is_set():
            with self._service.store.begin() as work:
                now = self._service.clock.now()
                turn = self._turn(work, now)
                lease = work.jobs.claim(new_owner(), now, self._settings.lease_s, turn) if turn else None
            if lease is None:
                return
            self._spawn(lease)

    def _mirror(self) -> None:
        """Sees to one job at a time that has ended and whose mirrors may lack something."""
        now = self._service.clock.now()
        if self._mirroring is not None:
            job_id, process = self._mirroring
            code = process.poll()
            if code is None:
                return
            self._mirroring = None
            if code != 0:
                self._put_off(job_id)
        if now < self._mirror_at:
            return
        self._mirror_at = now + MIRROR_S
        with self._service.store.read() as work:
            behind = [job for job in work.jobs.behind(now) if self._troubled(job).not_before <= now]
        if behind:
            self._mirror_at = now
            command = [*_MIRRORING, behind[0], "--parent", str(os.getpid())]
            with (self._settings.root / "mirroring.log").open("ab") as log:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            self._mirroring = (behind[0], process)

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
        return [job.id for job in in_turn(queued, used, teams) if self._troubled(job.id).not_before <= now]

    def _spawn(self, lease: Lease) -> None:
        try:
            self._start(lease)
        except OSError:
            # No disk, no memory, no process: somebody else may have some.
            self._put_off(lease.job)
            with self._service.store.begin() as work:
                work.jobs.release(lease)
            raise

    def _start(self, lease: Lease) -> None:
        directory = self._settings.job_dir(lease.job)
        directory.mkdir(parents=True, exist_ok=True)
        log = directory / "driver.log"
        process = self._starts.start(lease, self._troubled(lease.job).outages, log)
        self._drivers[lease.job] = Driver(process=process, lease=lease, log=log)

    def _reap(self) -> list[str]:
        """Takes note of the drivers that have ended; returns the jobs whose driver is to be replaced."""
        again: list[str] = []
        for job_id, driver in list(self._drivers.items()):
            code = driver.process.poll()
            if code is not None:
                if self._ended(job_id, driver, code):
                    again.append(job_id)
                # Only now: where the database does not answer, the next round takes note of it.
                del self._drivers[job_id]
        return again

    def _ended(self, job_id: str, driver: Driver, code: int) -> bool:
        """Takes back a lease that a driver left behind; says whether another driver should go on with the job."""
        trouble, now = self._troubled(job_id), self._service.clock.now()
        with self._service.store.begin() as work:
            held = work.jobs.revoke(job_id, driver.lease.owner)
            if code == TRY_AGAIN:
                self._put_off(job_id)
            job = work.jobs.get(job_id)
            if job.state in JOB_ENDS or not (held or code == TRY_AGAIN):
                if code != TRY_AGAIN:
                    self._trouble.pop(job_id, None)
                return False
            if code == TRY_AGAIN:
                if job.state is not JobState.QUEUED and held:
                    work.jobs.set_state(job_id, JobState.QUEUED, now, reason="an outage")
                return True
            words = f"killed by {_signal_name(-code)}" if code < 0 else f"ended with code {code}"
            totals = work.trials.totals([job_id])[job_id]
            achieved = (tuple(sorted(totals.states.items())), totals.cost_s)
            trouble.deaths = trouble.deaths + 1 if achieved == trouble.achieved else 1
            trouble.achieved = achieved
            what = f"its driver was {words}" if code < 0 else f"its driver {words}"
            if trouble.deaths < MAX_DEATHS:
                trouble.not_before = now + 2.0 ** (trouble.deaths - 1) - 1.0
                if job.state is not JobState.QUEUED:
                    work.jobs.set_state(job_id, JobState.QUEUED, now, reason=what)
                return True
            message = f"{what}, for the {_ordinal(trouble.deaths)} time in a row with nothing achieved in between."
            error = JobError(kind="driver", message=message, hint=f"The reason is at the end of {driver.log}.")
            work.jobs.set_state(job_id, JobState.FAILED, now, error=error)
            end_running(work, self._settings.job_dir(job_id), job_id, now, f"the job has ended: {message}")
            return False

    def _troubled(self, job_id: str) -> _Trouble:
        return self._trouble.setdefault(job_id, _Trouble())

    def _put_off(self, job_id: str) -> None:
        """Waits before the next driver, longer each time."""
        trouble = self._troubled(job_id)
        trouble.outages += 1
        trouble.not_before = self._service.clock.now() + min(_LONGEST_PAUSE_S, 2.0**trouble.outages)

    def _end_drivers(self) -> None:
        """Ends the drivers: at once with a checkpoint, or once their running trials are through, as set."""
        self._starts.end()
        if self._settings.drain_s > 0:
            self._signal(signal.SIGUSR1)
            self._wait(self._settings.drain_s)
        self._signal(signal.SIGTERM)
        if self._mirroring is not None:
            self._mirroring[1].terminate()
            self._mirroring[1].wait()
        # The driver gives its trials the grace period; past that it is not coming back.
        self._wait(2 * self._settings.grace_s + 30)
        self._signal(signal.SIGKILL)
        self._wait(10.0)
        self._safely(self._reap)

    def _signal(self, number: int) -> None:
        for driver in self._drivers.values():
            if driver.process.poll() is None:
                driver.process.send_signal(number)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for driver in self._drivers.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                driver.process.wait(timeout=max(0.0, until - time.monotonic()))


def run_embedded(
    service: Service, settings: Settings, job_id: str, on_tick: Callable[[], None], starts: Drivers | None = None
) -> None:
    """Runs one job to its end in the foreground; see ``Supervisor.run_one``."""
    Supervisor(service, settings, starts).run_one(job_id, on_tick)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")
