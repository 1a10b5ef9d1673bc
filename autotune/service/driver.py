"""The process that runs one job: ``python -m autotune.service.driver JOB --owner O --token N --parent PID``.

With ``--ready`` instead of a job it waits for one (see ``spawning``).

It puts the rooms together: the coordinator over the job's book, Ray below it, the observers beside it. It ends when
the job does, when it is told to (SIGTERM: trials write a checkpoint and are queued again; SIGUSR1: the running ones
first get to their end), when it loses its lease, when Ray or the database stays away (the job is queued and tried again
later), and together with its parent.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from autotune import logs
from autotune.backends import get_backend
from autotune.backends.base import Command, Preloading
from autotune.errors import AutotuneError, LeaseLostError, UnreachableError
from autotune.execution.ray_home import ray_home
from autotune.execution.unpaid import unpaid_s
from autotune.search.book import Book
from autotune.search.coordinator import Closing, Coordinator, Descent
from autotune.search.population import Explorer
from autotune.search.population import directory_of as trial_directory
from autotune.search.stages import Handover, hand_over, judge_stage
from autotune.search.types import Trial
from autotune.service.checking import TrialCheck
from autotune.service.enclosing import enclose_or_later
from autotune.service.ending import end_running
from autotune.service.observers import observers_for
from autotune.service.occupancy import note_cluster
from autotune.service.owner import TRY_AGAIN, die_with
from autotune.service.publishing import Observer, PublishingBook
from autotune.service.reporting import report_job
from autotune.service.service import Service, open_service
from autotune.service.spaces import ResolvedSpace, resolve_document
from autotune.service.staging import as_it_runs, descent, directory_of, failure_hint, handed_over, is_over
from autotune.service.steering import Steering
from autotune.settings import load_settings
from autotune.spec.types import OnFail, Resources, Space
from autotune.states import JOB_ENDS, JobState, TrialState
from autotune.store import SqlBook
from autotune.store.patience import Patience
from autotune.store.values import Job, JobError, Lease, Study

logger = logging.getLogger("autotune.driver")

MAX_TRIES = 3
"""How often a Ray of our own is tried again that does not start on this machine."""
OBSERVERS_S = 60.0
"""How long the observers may take to finish when the job is over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobEnd:
    """What becomes of a job when its driver has no more to do; ``queued`` = it goes on under the next driver."""

    state: JobState
    reason: str = ""
    error: JobError | None = None
    outage: bool = False


class JobDriver:
    """Drives one job under one lease.

    Args:
        service: The use cases and the store behind them.
        lease: The right to drive the job.
        tries: Drivers of this job that have met an outage, one after the other, before this one.
    """

    def __init__(self, service: Service, lease: Lease, tries: int = 0) -> None:
        self._service = service
        self._lease = lease
        self._settings = service.settings
        self._tries = tries
        self._interrupted = False
        self._drained = False
        self._mirrored = True  # whether the observers have everything so far
        self._observed = False
        self._patience = Patience(service.clock, give_up=lambda: self._interrupted or self._lease_lost is not None)
        self._lease_lost: LeaseLostError | None = None
        self._ended = threading.Event()
        self._book: PublishingBook | None = None
        self._best: Callable[[], Trial | None] = lambda: None
        self._steering: Steering | None = None
        self._clock_from = 0.0  # when the wall-clock budget began
        self._home: Path | None = None

    def interrupt(self, *_: object) -> None:
        """Asks the driver to end: trials write a checkpoint and wait for the next driver. Safe in a signal handler."""
        self._interrupted = True

    def drain(self, *_: object) -> None:
        """Asks the driver to end once the running trials have. Safe in a signal handler."""
        self._drained = True

    def run(self) -> bool:
        """Runs the job to its end, or until it is interrupted.

        Returns:
            Whether it met an outage, and the job should be tried again later.

        Raises:
            LeaseLostError: If another driver holds the job by now; nothing more was written.
        """
        job, by_hand = self._begin()
        logger.info("driving job %s, lease %d", job.id, self._lease.token)
        threading.Thread(target=self._keep_lease, name="lease", daemon=True).start()
        unexpected: Exception | None = None
        try:
            end = self._search(job, by_hand=by_hand)
        except LeaseLostError:
            raise
        except UnreachableError as error:
            logger.exception("the job cannot go on right now")
            end = self._outage(error)
        except AutotuneError as error:
            logger.exception("the job cannot go on")
            end = _failed(error.code, error.message, error.hint)
        except Exception as error:
            logger.exception("the driver failed")
            hint = f"The traceback is in {self._settings.job_dir(job.id) / 'driver.log'}."
            end, unexpected = _failed("internal", f"{type(error).__name__}: {error}", hint), error
        if self._interrupted and (end.state is JobState.FAILED or end.outage):
            # Told to go while Ray was starting, say: what broke then says nothing about the job, and its next driver
            # meets it again if it does.
            end, unexpected = JobEnd(state=JobState.QUEUED, reason="interrupted"), None
        self._close(end.state)
        self._end(end)
        logger.info("job %s is %s %s", job.id, end.state, end.reason or (end.error.message if end.error else ""))
        if end.state in JOB_ENDS:
            report_job(self._service, job.id)
            if self._observed and self._mirrored:
                enclose_or_later(self._service, job.id)
        if unexpected is not None:
            raise unexpected
        return end.outage

    def _outage(self, error: UnreachableError) -> JobEnd:
        """What becomes of the job when Ray or the database does not answer: it waits for them.

        A Ray of our own that does not start on this machine is no outage for ever: nobody is going to repair it.
        """
        if self._settings.ray_address is None and self._tries >= MAX_TRIES:
            return _failed(error.code, error.message, error.hint)
        return JobEnd(state=JobState.QUEUED, reason=f"waits: {error.message} It is tried again.", outage=True)

    def _begin(self) -> tuple[Job, bool]:
        """Marks the job as running; also says whether a person has resumed it after it had ended."""
        self._patience(self._service.ping)
        with self._service.store.begin() as work:
            ends = (JobState.FAILED.value, JobState.CANCELLED.value)
            states = [
                r.event.data
                for r in work.trials.events(self._lease.job, limit=1_000_000)
                if r.event.kind == "job.state"
            ]
            by_hand = bool(states) and states[-1].get("from") in ends
            job = work.jobs.set_state(self._lease.job, JobState.RUNNING, self._service.clock.now(), lease=self._lease)
        return job, by_hand

    def _search(self, job: Job, *, by_hand: bool) -> JobEnd:
        """Runs the job's searches, one after the other where it has stages."""
        resolved = resolve_document(job.document, job.file)
        with self._service.store.read() as work:
            studies = work.jobs.studies(job.id)
        with self._ray(resolved):
            return self._run_studies(job, resolved, studies, by_hand=by_hand)

    def _run_studies(self, job: Job, resolved: ResolvedSpace, studies: Sequence[Study], *, by_hand: bool) -> JobEnd:
        given, end = Handover(), JobEnd(state=JobState.COMPLETED)
        for place, (part, study) in enumerate(zip(resolved.parts, studies, strict=True)):
            if is_over(study, part.stage) and place + 1 < len(studies):
                given = handed_over(resolved.parts, studies, place + 1, lambda one: self._open(one).load())
                continue
            self._close(JobState.COMPLETED)
            end, handover = self._run_study(job, part, study, given, by_hand=by_hand)
            if handover is None:
                return end
            given = handover
        return end

    def _run_study(
        self, job: Job, part: ResolvedSpace, study: Study, given: Handover, *, by_hand: bool
    ) -> tuple[JobEnd, Handover | None]:
        """Runs one search; what the next one gets, ``None`` where the job ends here."""
        with self._service.store.begin() as work:
            study = work.jobs.begin_study(study, self._service.clock.now(), self._lease)
        part = as_it_runs(part, given)
        observers = self._observers(job, part, study)
        self._observed = self._observed or bool(observers)
        book = PublishingBook(self._open(study), observers)
        self._book = book
        coordinator = self._coordinator(job, part, study, book, by_hand=by_hand)
        self._best = coordinator.best
        self._run_trials(coordinator, part, study)
        end, stage = _verdict(coordinator), part.stage
        going = (Closing.INTERRUPTED, Closing.DRAINED, Closing.CANCELLED)
        over = coordinator.closing not in going and not coordinator.held
        if stage is None or not over:
            return end, None
        verdict = judge_stage(stage, coordinator.trials.values(), coordinator.curves, given.curve)
        words = verdict.words(stage.name)
        with self._service.store.begin() as work:
            work.jobs.end_study(study, self._service.clock.now(), verdict.document(), words, self._lease)
        if coordinator.closing is Closing.STOPPED:
            return end, None
        if not verdict.passed and stage.on_fail is OnFail.FAIL:
            hint = failure_hint(stage, verdict, _commonest(list(coordinator.trials.values())))
            return _failed("stage_failed", f"{words}.", hint.replace("JOB", job.id)), None
        trials, curves = coordinator.trials.values(), coordinator.curves
        return end, hand_over(stage, verdict.winner, trials, curves, given)

    def _observers(self, job: Job, part: ResolvedSpace, study: Study) -> dict[str, Callable[[], Observer]]:
        return observers_for(self._service, job, part, study)

    def _open(self, study: Study) -> SqlBook:
        return SqlBook(self._service.store, study.id, self._lease, stage=study.stage, patience=self._patience)

    def _close(self, state: JobState) -> None:
        """Lets the observers finish, whatever happened."""
        book, self._book = self._book, None
        if book is not None and not book.close(self._best(), state, OBSERVERS_S):
            self._mirrored = False
            logger.warning("the observers need more than %.0f s; the service sees to it later", OBSERVERS_S)

    def _coordinator(
        self, job: Job, resolved: ResolvedSpace, study: Study, book: Book, *, by_hand: bool
    ) -> Coordinator:
        space, now = resolved.space, self._service.clock.now()
        self._steering = Steering(self._service.store, self._lease, self._service.clock, job)
        began = study.started_at if study.title else job.started_at
        self._clock_from = now if by_hand or began is None else began
        deadline = None if space.budget.wall_clock_s is None else self._clock_from + space.budget.wall_clock_s
        coordinator = Coordinator(
            space,
            resolved.base,
            book,
            fence=f"{study.stage}:{self._lease.token}",
            total_steps=resolved.steps,
            deadline=deadline,
            check=TrialCheck(space, self._settings),
            seed_path=resolved.seed_path,
            descent=self._descent(job, study, space.trainer.backend),
            explorer=_explorer(space),
        )
        trials = directory_of(self._settings.job_dir(job.id), study) / "trials"
        coordinator.recover(now, lambda trial, heard_at: unpaid_s(trials / trial_directory(trial.number), heard_at))
        if by_hand:
            coordinator.reopen(now)
        self._poll(coordinator)
        return coordinator

    @contextmanager
    def _ray(self, resolved: ResolvedSpace) -> Iterator[None]:
        """What lasts from one stage to the next: Ray, and where it is the job's own, its directory."""
        from autotune.execution.ray_connection import ray_connected

        address, places = self._settings.ray_address, [_place(part.space) for part in resolved.parts]
        with ExitStack() as kept:
            if address is None:
                self._home = kept.enter_context(ray_home(_first_command(resolved), warm_s=self._settings.warm_s))
            kept.enter_context(ray_connected(address, places, self._home))
            yield

    def _descent(self, job: Job, study: Study, name: str) -> Descent:
        with self._service.store.read() as work:
            earlier = work.jobs.studies(job.id)[: study.stage]
        job_dir = self._settings.job_dir(job.id)
        return descent(get_backend(name), job_dir, earlier, lambda one: self._open(one).load())

    def _run_trials(self, coordinator: Coordinator, resolved: ResolvedSpace, study: Study) -> None:
        from autotune.execution.ray_tune import run_on_ray

        space = resolved.space
        run_on_ray(
            coordinator,
            backend=space.trainer.backend,
            job_dir=directory_of(self._settings.job_dir(self._lease.job), study),
            resources=space.resources,
            parallel=space.budget.parallel,
            steps=resolved.steps,
            grace_s=self._settings.grace_s,
            address=self._settings.ray_address,
            clock=self._service.clock,
            on_idle=lambda: self._poll(coordinator),
            home=self._home,
            warm_s=self._settings.warm_s,
            on_cluster=lambda resources: note_cluster(self._settings, resources),
        )

    def _poll(self, coordinator: Coordinator) -> None:
        """Looks what is wanted of the job."""
        if self._interrupted:
            coordinator.close(Closing.INTERRUPTED)
        elif self._drained:
            coordinator.close(Closing.DRAINED)
        if self._lease_lost is not None:
            raise self._lease_lost
        if self._steering is not None:
            try:
                self._steering.look(coordinator, self._clock_from)
            except UnreachableError as error:
                # What runs goes on; the wish is still there when the database is back.
                logger.warning("cannot look what is wanted of the job: %s", error.message)

    def _keep_lease(self) -> None:
        """Renews the lease on a thread of its own: Ray may take longer to start than a lease lasts."""
        while not self._ended.wait(self._settings.lease_s / 3):
            try:
                with self._service.store.begin() as work:
                    work.jobs.renew(self._lease, self._service.clock.now(), self._settings.lease_s)
            except LeaseLostError as error:
                self._lease_lost = error
                return
            except AutotuneError as error:
                logger.warning("the lease cannot be renewed right now: %s", error.message)

    def _end(self, end: JobEnd) -> None:
        self._patience(lambda: self._write_end(end))
        self._ended.set()

    def _write_end(self, end: JobEnd) -> None:
        now = self._service.clock.now()
        with self._service.store.begin() as work:
            state = end.state
            if state is JobState.PAUSED:
                # Somebody may have resumed it since the search came to rest; then the next driver goes on.
                paused = work.jobs.get(self._lease.job).state is JobState.PAUSED
                state = JobState.PAUSED if paused else JobState.QUEUED
            if state is not JobState.PAUSED:
                work.jobs.set_state(self._lease.job, state, now, reason=end.reason, error=end.error, lease=self._lease)
            if state in JOB_ENDS:
                why = end.error.message if end.error else end.reason
                directory = self._settings.job_dir(self._lease.job)
                left = end_running(work, directory, self._lease.job, now, f"the job has ended: {why}")
                if self._mirrored and not left:
                    work.jobs.mark_mirrored(self._lease.job, now)
            work.jobs.release(self._lease)


def _first_command(resolved: ResolvedSpace) -> Command | None:
    """How the first trial will be started, where its process may be forked."""
    part = resolved.parts[0]
    backend = get_backend(part.space.trainer.backend)
    if isinstance(backend, Preloading) and part.space.resources.gpus <= 1:
        return backend.command(part.base)
    return None


def _place(space: Space) -> tuple[Resources, int]:
    """What a trial occupies, and how many run at a time."""
    return space.resources, space.budget.parallel


def _explorer(space: Space) -> Explorer | None:
    """What perturbs the members of a population; nothing where there is none."""
    if space.population is None:
        return None
    from autotune.execution.ray_pbt import RayExplorer

    return RayExplorer(space.population, space.search)


def _verdict(coordinator: Coordinator) -> JobEnd:
    """What becomes of the job when nothing runs any more."""
    trials = coordinator.trials.values()
    match coordinator.closing:
        case Closing.INTERRUPTED:
            return JobEnd(state=JobState.QUEUED, reason="interrupted; its trials continue from their checkpoints")
        case Closing.DRAINED:
            return JobEnd(state=JobState.QUEUED, reason="its driver was told to go; what ran has ended")
        case Closing.CANCELLED:
            return JobEnd(state=JobState.CANCELLED, reason="cancelled by a person")
        case None if coordinator.held:
            return JobEnd(state=JobState.PAUSED, reason="nothing runs any more")
    if any(trial.state is TrialState.COMPLETED for trial in trials):
        return JobEnd(state=JobState.COMPLETED)
    counts = Counter(trial.state.value for trial in trials)
    ended = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    return _failed(
        "no_trial_completed", f"not one of {len(trials)} trials completed ({ended}).", _commonest(list(trials))
    )


def _failed(kind: str, message: str, hint: str) -> JobEnd:
    return JobEnd(state=JobState.FAILED, error=JobError(kind=kind, message=message, hint=hint))


def _commonest(trials: list[Trial]) -> str:
    """What most trials died of, as a hint."""
    causes = Counter(
        trial.error_message or (trial.reason.text if trial.reason else "")
        for trial in trials
        if trial.ended_at is not None
    )
    causes.pop("", None)
    if not causes:
        return ""
    cause, count = causes.most_common(1)[0]
    return f"The commonest cause ({count} of {len(trials)}): {cause}"


def _wait_for_job(options: argparse.Namespace) -> bool:
    """Imports what every job needs, and waits; fills in the job that comes. Whether one came."""
    import autotune.execution.ray_tune  # noqa: F401

    line = sys.stdin.readline()
    if not line:
        return False
    told = json.loads(line)
    with Path(told.pop("log")).open("ab") as log:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(log.fileno(), stream.fileno())
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    vars(options).update(told)
    return True


def main(argv: list[str] | None = None) -> int:
    """Runs the driver; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m autotune.service.driver", description="Runs one leased job.")
    parser.add_argument("job", nargs="?")
    parser.add_argument("--owner")
    parser.add_argument("--token", type=int)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--tries", type=int, default=0)
    parser.add_argument("--ready", action="store_true", help="wait for a job, which comes on standard input")
    options = parser.parse_args(argv)
    die_with(options.parent)
    if options.ready and not _wait_for_job(options):
        return 0
    if None in (options.job, options.owner, options.token):
        parser.error("needs a job, its owner and its token")
    settings = load_settings()
    logs.set_up(logging.StreamHandler(), logging.INFO, settings.log_format)
    logs.of_process(job=options.job)
    warnings.filterwarnings("ignore", module="optuna")
    Path(settings.job_dir(options.job)).mkdir(parents=True, exist_ok=True)
    try:
        service = open_service(settings)
    except UnreachableError as error:
        logger.error("%s", error.message)
        return TRY_AGAIN
    lease = Lease(job=options.job, owner=options.owner, token=options.token, expires=0.0)
    driver = JobDriver(service, lease, options.tries)
    signal.signal(signal.SIGTERM, driver.interrupt)
    signal.signal(signal.SIGUSR1, driver.drain)
    signal.signal(signal.SIGINT, driver.interrupt)
    try:
        outage = driver.run()
    except LeaseLostError as error:
        logger.error("%s", error.message)
        return error.exit_code
    except Exception:  # noqa: BLE001  recorded in the job and in the log by now
        return 1
    return TRY_AGAIN if outage else 0


if __name__ == "__main__":
    sys.exit(main())
