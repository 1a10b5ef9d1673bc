"""Every use case of the service, each one short: what the API, and through it the SDK and the command line, can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TypeVar

from autotune.access import LOCAL, Caller, Role
from autotune.clock import Clock, SystemClock
from autotune.errors import ConflictError, NotFoundError, UnknownCursorError, UsageError
from autotune.preflight import Check
from autotune.service import verbs
from autotune.service.acting import Acting
from autotune.service.confidential import refuse_secrets
from autotune.service.diagnosis import diagnose
from autotune.service.doorkeeper import Doorkeeper
from autotune.service.examining import examine
from autotune.service.exporting import export_view
from autotune.service.kept import KeptViews
from autotune.service.occupancy import Occupancy, occupancy
from autotune.service.planning import plan_view
from autotune.service.present import event_view, job_view, trial_view
from autotune.service.readiness import components
from autotune.service.safety import refuse_code, refuse_paths
from autotune.service.spaces import ResolvedSpace, resolve_document, resolve_space
from autotune.service.staging import named
from autotune.service.warm_start import look_up
from autotune.service.winner import winner_view
from autotune.settings import Settings
from autotune.spec.catalogue import shipped_spaces
from autotune.states import JobState, TrialState
from autotune.store import NewJob, Store
from autotune.store.database import UnitOfWork
from autotune.store.values import Job
from autotune.views import (
    AdviceView,
    BestView,
    CurveView,
    EventView,
    ExportView,
    JobView,
    ModelVersionView,
    Page,
    PlanView,
    SpaceView,
    TrialView,
)

_State = TypeVar("_State", JobState, TrialState)


class Service(Acting):
    """The use cases. Every method may be called from any thread and raises ``AutotuneError`` only.

    Args:
        settings: Where things are.
        store: The study database, migrated.
        clock: What time it is.
    """

    def __init__(self, settings: Settings, store: Store, clock: Clock | None = None) -> None:
        self.settings = settings
        self.store = store
        self.clock = clock or SystemClock()
        self.caller = LOCAL
        self.access = Doorkeeper(store, self.clock)
        self._kept = KeptViews()

    def as_caller(self, caller: Caller) -> Service:
        """The same service, asked by somebody: what that person may not do is refused."""
        asked = copy(self)
        asked.caller = caller
        return asked

    # -- before anything runs --------------------------------------------------------------------------------------

    def plan(self, source: str, file: str) -> PlanView:
        """What a space would do; nothing is stored.

        Raises:
            InvalidSpaceError: With every problem of the space.
        """
        return plan_view(look_up(self._resolve(source, file), file, self.store), self.settings)

    def examine(self, source: str, file: str) -> list[Check]:
        """What can be said of a space on this machine before anything is spent; nothing is stored.

        Raises:
            InvalidSpaceError: With every problem of the space.
        """
        return examine(look_up(self._resolve(source, file), file, self.store), self.settings)

    def submit(self, source: str, file: str, idempotency_key: str | None = None) -> tuple[JobView, bool]:
        """Stores a job and says whether it is new.

        Raises:
            InvalidSpaceError: With every problem of the space.
            ConflictError: If a job of this name is at work already, or the key was used for another space.
        """
        self.caller.require(Role.OPERATOR, "submitting a job")
        written = self._resolve(source, file)
        refuse_code(written, self.caller, self.settings.allowed)
        resolved = look_up(written, file, self.store)
        new = NewJob(
            name=resolved.space.name,
            document=resolved.document,
            source=source,
            file=file,
            space_hash=resolved.digest,
            stages=[stage.name for stage in resolved.space.stages],
            owner=self.caller.name,
            team=self.caller.team,
            idempotency_key=idempotency_key,
            # What the same file starts from may change from one day to the next; the file is the same all the same.
            body_hash=written.digest if idempotency_key else None,
        )
        now = self.clock.now()
        with self.store.begin() as work:
            active = work.jobs.active_with_name(new.name)
            job = work.jobs.add(new, now)
            created = not job.directory
            if created and active is not None and verbs.at_work(active, self.clock):
                raise ConflictError(
                    f"job {active.id!r} of the same name is {active.state} already.",
                    hint=f"Go on with it: autotune launch --resume {active.id}. End it: autotune cancel {active.id}. "
                    "Run both: give this one another --name.",
                )
            work.jobs.set_places(job.id, directory=str(self.settings.job_dir(job.id)))
            view = self._job_view(work, work.jobs.get(job.id))
        if created:
            directory = self.settings.job_dir(job.id)
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "space.yaml").write_text(source)
        return view, created

    def spaces(self) -> list[SpaceView]:
        """The space files that ship with the project."""
        return [
            SpaceView(name=space.name, description=space.description, path=str(space.path))
            for space in shipped_spaces()
        ]

    # -- looking ---------------------------------------------------------------------------------------------------

    def jobs(self, state: str | None = None, limit: int = 50, cursor: str | None = None) -> Page:
        """Jobs, newest first, as a page of ``JobView``.

        Raises:
            UnknownCursorError: If the cursor is none of ours.
            UsageError: If the state is unknown.
        """
        states = [_state(JobState, state)] if state else []
        with self.store.read() as work:
            page = work.jobs.list(states=states, limit=limit, after=cursor)
            return Page(items=[self._job_view(work, job) for job in page.items], next=page.next)

    def job(self, job_id: str) -> JobView:
        """One job.

        Raises:
            NotFoundError: If there is no such job.
        """
        with self.store.read() as work:
            return self._job_view(work, work.jobs.get(job_id))

    def trials(
        self,
        job_id: str,
        state: str | None = None,
        limit: int = 500,
        cursor: str | None = None,
        stage: str | None = None,
    ) -> Page:
        """Trials of a job by number, as a page of ``TrialView``; of the stage that it is at, or of the named one.

        Raises:
            NotFoundError: If there is no such job or stage.
            UnknownCursorError: If the cursor is none of ours.
            UsageError: If the state is unknown.
        """
        wanted = _state(TrialState, state) if state else None
        after = _number(cursor) if cursor else -1
        with self.store.read() as work:
            job = work.jobs.get(job_id)
            study = named(work.jobs.studies(job_id), job_id, stage)
            records = work.trials.list(job_id, study.stage, after=after, state=wanted, limit=limit + 1, whole=False)
        views = [trial_view(record, job, study) for record in records[:limit]]
        return Page(items=views, next=str(views[-1].number) if len(records) > limit else None)

    def trial(self, job_id: str, number: int, stage: str | None = None) -> TrialView:
        """One trial of the stage that the job is at, or of the named one.

        Raises:
            NotFoundError: If there is no such job, stage or trial.
        """
        with self.store.read() as work:
            job = work.jobs.get(job_id)
            study = named(work.jobs.studies(job_id), job_id, stage)
            return trial_view(work.trials.get(job_id, number, study.stage), job, study)

    def curves(
        self,
        job_id: str,
        metrics: Sequence[str] = (),
        trials: Sequence[int] | None = None,
        max_points: int = 500,
        stage: str | None = None,
    ) -> list[CurveView]:
        """Curves of the named metrics (none named = all), thinned to ``max_points`` steps a trial.

        Raises:
            NotFoundError: If there is no such job or stage.
        """
        with self.store.read() as work:
            work.jobs.get(job_id)
            study = named(work.jobs.studies(job_id), job_id, stage)
            found = work.trials.curves(
                job_id, metrics=metrics, numbers=trials or (), max_points=max_points, stage=study.stage
            )
        return [
            CurveView(
                trial=curve.trial,
                steps=list(curve.steps),
                metrics={name: list(values) for name, values in curve.metrics.items()},
            )
            for curve in found
        ]

    def advice(self, job_id: str, trial: int | None = None, stage: str | None = None) -> list[AdviceView]:
        """What the rules on curves find in the trials of a job, or in one of them.

        Raises:
            NotFoundError: If there is no such job, stage or trial.
        """
        with self.store.read() as work:
            job = work.jobs.get(job_id)
            study = named(work.jobs.studies(job_id), job_id, stage)
            everybody = work.trials.list(job_id, study.stage) if trial is None else ()
            records = everybody if trial is None else (work.trials.get(job_id, trial, study.stage),)
            curves = work.trials.curves(
                job_id, metrics=(), numbers=() if trial is None else (trial,), max_points=10_000, stage=study.stage
            )
        part = resolve_document(job.document, job.file).parts[study.stage]
        return diagnose(part, [record.trial for record in records], curves)

    def best(self, job_id: str) -> BestView:
        """The best feasible completed trial; with stages the winner of the one that the job is at.

        Raises:
            NotFoundError: If there is no such job, or no trial has completed within the constraints.
        """
        return winner_view(self.store, job_id)

    def export(self, job_id: str, to: str, trial: int | None = None, stage: str | None = None) -> ExportView:
        """A trial's configuration as a launch command or as YAML; without a number the best one's.

        Raises:
            NotFoundError: If there is no such job, stage or trial, or no trial has completed within the constraints.
            UsageError: If the job's configurations have no such form.
        """
        return export_view(self.store, job_id, to, trial, stage)

    def events(self, job_id: str, after: int = 0, limit: int = 1000) -> list[EventView]:
        """The job's record, oldest first, beginning after the event ``after``.

        Raises:
            NotFoundError: If there is no such job.
        """
        with self.store.read() as work:
            work.jobs.get(job_id)
            stages = [study.title for study in work.jobs.studies(job_id)]
            return [event_view(record, stages) for record in work.trials.events(job_id, after=after, limit=limit)]

    def logs(self, job_id: str, trial: int | None = None, tail: int = 200, stage: str | None = None) -> str:
        """The last ``tail`` lines of the driver's log, or of a trial's newest attempt.

        Raises:
            NotFoundError: If there is no such job, trial or log.
        """
        if trial is None:
            path = self.settings.job_dir(self.job(job_id).id) / "driver.log"
        else:
            directory = Path(self.trial(job_id, trial, stage).directory)
            attempts = sorted(directory.glob("attempt_*.log"), key=lambda path: int(path.stem.rpartition("_")[2]))
            path = attempts[-1] if attempts else directory / "attempt_1.log"
        if not path.is_file():
            raise NotFoundError(
                f"there is no log {path} yet.", hint="It is written where the job runs, once it has started."
            )
        lines = path.read_text(errors="replace").splitlines(keepends=True)
        return "".join(lines[-tail:])

    def report(self, job_id: str, form: str = "html") -> Path:
        """The job's report as ``html``, ``markdown`` or ``json``, written afresh unless the job ended before.

        Raises:
            NotFoundError: If there is no such job.
            UsageError: If there is no such form.
        """
        from autotune.service.reporting import report_job

        return report_job(self, job_id, form)

    def register(self, job_id: str, name: str | None = None) -> ModelVersionView:
        """Registers the best trial's checkpoint as a model version in MLflow.

        Raises:
            NotFoundError: If there is no such job, no best trial, or MLflow does not know its run.
            ConflictError: If its checkpoint is not on this machine, or cannot be exported.
            UsageError: If the name cannot be used.
            UnreachableError: If MLflow does not answer.
        """
        from autotune.service.registering import register_best

        with self.store.read() as work:
            self._may_act(work, job_id, "registering a model")
        return register_best(self, job_id, name)

    def document(self, job_id: str) -> Mapping[str, object]:
        """The space of a job as plain JSON, as it was resolved when it was submitted."""
        with self.store.read() as work:
            return work.jobs.get(job_id).document

    # -- health ----------------------------------------------------------------------------------------------------

    def ping(self) -> None:
        """Touches the study database once.

        Raises:
            UnreachableError: If it does not answer.
        """
        self.store.ping()

    def ready(self) -> Mapping[str, str]:
        """Component -> ``ok``, or what is wrong with it."""
        return components(self.settings, self.ping)

    def occupancy(self) -> Occupancy:
        """GPU slots that are held and free, and how fresh the drivers' leases are."""
        with self.store.read() as work:
            return occupancy(work, self.settings, self.clock.now())

    # -- inside ----------------------------------------------------------------------------------------------------

    def _resolve(self, source: str, file: str) -> ResolvedSpace:
        resolved = resolve_space(source, file)
        if any(warm.optuna for part in resolved.parts for warm in part.space.warm_starts):
            self.caller.require(Role.ADMIN, "reading a database on the disk of the service")
        refuse_paths(resolved, self.caller, self.settings.allowed_paths)
        refuse_secrets(resolved, source)
        return resolved

    def _job_view(self, work: UnitOfWork, job: Job) -> JobView:
        return self._kept.view(job, lambda: self._made_view(work, job))

    def _made_view(self, work: UnitOfWork, job: Job) -> JobView:
        studies = work.jobs.studies(job.id)
        trials = {
            study.stage: work.trials.answers(job.id, study.stage)
            for study in studies
            if study.started_at is not None or study is studies[0]
        }
        waits = work.jobs.waits_for(job.id) if job.state is JobState.QUEUED else ""
        return job_view(job, work.trials.totals_of_stages(job.id), studies, trials, waits)


def open_service(settings: Settings) -> Service:
    """Opens the service on its database, migrating it first.

    Raises:
        NotAllowedError: If the home directory cannot be written.
        UnreachableError: If the database does not answer.
    """
    settings.prepare_home()
    store = Store(settings.study_database)
    store.migrate()
    return Service(settings, store)


def _state(kind: type[_State], text: str) -> _State:
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"unknown state {text!r}; allowed are {', '.join(sorted(kind))}.") from None


_DIGITS = 10
"""No trial's number has as many, and a database could not compare it."""


def _number(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < _DIGITS):
        raise UnknownCursorError(f"the cursor {cursor!r} is none of ours.", hint="Pass on `next` of the page before.")
    return int(cursor)
