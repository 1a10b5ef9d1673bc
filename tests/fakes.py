"""A service in memory, and builders of views, for tests of everything above the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from autotune.access import LOCAL, Caller
from autotune.errors import ConflictError, InvalidSpaceError, NotFoundError, Problem, UnauthenticatedError, UsageError
from autotune.preflight import Check, Status
from autotune.service.occupancy import Occupancy
from autotune.states import JOB_ENDS, JobState, check_job_transition
from autotune.views import (
    AdviceView,
    BestView,
    ChangeView,
    CheckView,
    CurveView,
    ErrorView,
    EventView,
    ExportView,
    JobView,
    MemoryView,
    ModelVersionView,
    ObjectiveView,
    Page,
    ParameterView,
    PlanView,
    ReasonView,
    SpaceView,
    StageView,
    TrialView,
)

OBJECTIVE = ObjectiveView(metric="eval/reward", direction="maximize")
DIRECTORY = "/home/me/.autotune/jobs/demo-1"
SPACE = "name: demo\nsearch:\n  trainer.optim.lr: {float: [1e-5, 1e-2], log: true}\nbudget: {trials: 4}\n"


def make_job(job_id: str = "demo-1", **changes: Any) -> JobView:
    job = JobView(
        id=job_id,
        name=job_id.rsplit("-", 1)[0],
        description="A small search",
        owner="",
        team="",
        priority=0,
        state="queued",
        created_at=1_700_000_000.0,
        started_at=None,
        ended_at=None,
        objective=OBJECTIVE,
        trials={},
        budget_trials=4,
        parallel=2,
        steps=40,
        best_trial=None,
        best_value=None,
        default_value=None,
        cost_s=0.0,
        cost_gpu_hours=0.0,
        error=None,
        directory=DIRECTORY,
        mlflow_run="abc123",
    )
    return replace(job, **changes)


def make_trial(number: int = 0, **changes: Any) -> TrialView:
    trial = TrialView(
        number=number,
        state="completed",
        source="default" if number == 0 else "sampler",
        params={"trainer.optim.lr": 1e-3 * (number + 1), "algorithm.kl_ctrl.type": "fixed"},
        value=0.5 + number / 10,
        feasible=True,
        violations={"kl/actor_ref <= 0.12": -0.05},
        reason=None,
        error=None,
        attempts=1,
        last_step=40,
        metrics={"eval/reward": 0.5 + number / 10, "kl/actor_ref": 0.07, "actor/loss": None},
        cost_s=12.5,
        created_at=1_700_000_000.0,
        started_at=1_700_000_001.0,
        ended_at=1_700_000_020.0,
        directory=f"{DIRECTORY}/trials/{number:04d}",
    )
    return replace(trial, **changes)


def make_pruned(number: int = 2, pruner: str = "kl_ceiling") -> TrialView:
    reason = ReasonView(
        pruner=pruner,
        text="kl/actor_ref was 0.31, above 0.15, for 3 steps",
        numbers={"value": 0.31, "above": 0.15},
    )
    return make_trial(number, state="pruned", reason=reason, value=None, last_step=9, cost_s=3.0)


def make_failed(number: int = 3) -> TrialView:
    error = ErrorView(kind="out_of_memory", message="out of memory at step 2", hint="Lower the batch size.")
    return make_trial(number, state="infeasible", error=error, value=None, feasible=False, last_step=2)


def finished_trials() -> list[TrialView]:
    return [make_trial(0), make_trial(1), make_pruned(2), make_failed(3)]


def finished_job(**changes: Any) -> JobView:
    values: dict[str, Any] = {
        "state": "completed",
        "started_at": 1_700_000_001.0,
        "ended_at": 1_700_000_061.0,
        "trials": {"completed": 2, "pruned": 1, "infeasible": 1},
        "best_trial": 1,
        "best_value": 0.6,
        "default_value": 0.5,
        "cost_s": 40.5,
    }
    return make_job(**{**values, **changes})


def make_stages() -> list[StageView]:
    check = CheckView(text="perf/tokens_per_s >= 1.3 * default", holds=True, numbers={"default": 10.0, "x": None})
    first = StageView(
        name="fast",
        state="passed",
        objective=ObjectiveView(metric="perf/tokens_per_s", direction="maximize"),
        trials={"completed": 4},
        budget_trials=4,
        steps=10,
        criteria=[check.text],
        checks=[check],
        best_trial=3,
        best_value=14.0,
        cost_s=20.0,
        started_at=1_700_000_001.0,
        ended_at=1_700_000_021.0,
    )
    second = replace(
        first,
        name="effect",
        state="running",
        objective=OBJECTIVE,
        trials={},
        criteria=["eval/reward > 0"],
        checks=[],
        best_trial=None,
        best_value=None,
        cost_s=0.0,
        ended_at=None,
    )
    return [first, second]


def make_best(job: JobView, trials: Sequence[TrialView]) -> BestView:
    trial = next(t for t in trials if t.number == job.best_trial)
    default = next((t for t in trials if t.source == "default" and t.value is not None), None)
    improvement = None
    if trial.value is not None and default is not None and default.value is not None:
        improvement = trial.value - default.value
    return BestView(
        job=job.id,
        objective=job.objective,
        trial=trial,
        overrides=[f"{name}={value}" for name, value in trial.params.items()],
        command="python -m trainer " + " ".join(f"{name}={value}" for name, value in trial.params.items()),
        checkpoint=f"{trial.directory}/checkpoints/step_40",
        default=default,
        improvement=improvement,
    )


def make_curve(trial: int, steps: int = 5) -> CurveView:
    return CurveView(
        trial=trial,
        steps=list(range(1, steps + 1)),
        metrics={
            "reward/mean": [0.1 * step + 0.02 * trial for step in range(steps)],
            "kl/actor_ref": [0.01 * step for step in range(steps)],
            "eval/reward": [None if step % 2 else 0.1 * step for step in range(steps)],
        },
    )


def make_plan(name: str = "demo") -> PlanView:
    return PlanView(
        name=name,
        description="A small search",
        backend="native",
        config="config",
        objective=OBJECTIVE,
        constraints=["kl/actor_ref <= 0.12"],
        sampler="tpe",
        seed=0,
        pruners=["asha(min_steps=10, reduction_factor=3)"],
        parameters=[
            ParameterView(path="trainer.optim.lr", domain="1e-05 .. 0.01, log", default=1e-3, when=None),
            ParameterView(
                path="algorithm.kl_ctrl.target_kl", domain="0.02 .. 0.2", default=0.1, when="kl_ctrl.type == 'adaptive'"
            ),
        ],
        require=["trainer.train_batch_size % trainer.mini_batch_size == 0"],
        trials=4,
        parallel=2,
        steps=40,
        max_steps=160,
        wall_clock_s=None,
        cpus_per_trial=1.0,
        gpus_per_trial=0.0,
        proposals=[{"trainer.optim.lr": 1e-3}],
        warnings=["4 trials are few for 2 parameters"],
        memory=MemoryView(
            peak_gib=4.2, phase="actor update", parts={"actor weights": 2.0}, room_gib=24.0, room="test", device="gpu"
        ),
    )


class FakeAccess:
    """A door that stands open until somebody puts holders of tokens behind it."""

    def __init__(self) -> None:
        self.holders: dict[str, Caller] = {}

    def shut(self) -> bool:
        return bool(self.holders)

    def let_in(self, text: str | None) -> Caller:
        if not self.holders:
            return LOCAL
        if text not in self.holders:
            raise UnauthenticatedError("this token is unknown.", hint="Ask an administrator.")
        return self.holders[text]


class FakeService:
    """Keeps jobs in a dictionary; satisfies ``autotune.api.port.ServicePort``."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or Path(DIRECTORY)
        self.store: dict[str, JobView] = {}
        self.trials_of: dict[str, list[TrialView]] = {}
        self.curves_of: dict[str, list[CurveView]] = {}
        self.events_of: dict[str, list[EventView]] = {}
        self.log = "first\nsecond\nthird\n"
        self.keys: dict[str, tuple[str, str]] = {}
        self.components: dict[str, str] = {"database": "ok", "mlflow": "ok"}
        self.calls: list[tuple[object, ...]] = []
        self.access = FakeAccess()
        self.held = Occupancy(gpus_busy=3.0, gpus=8.0, lease_age_s=4.0)
        self.caller = LOCAL

    def as_caller(self, caller: Caller) -> FakeService:
        self.caller = caller
        return self

    def add(self, job: JobView, trials: Sequence[TrialView] = ()) -> JobView:
        job = replace(job, directory=str(self.directory))
        self.store[job.id] = job
        self.trials_of[job.id] = list(trials)
        self.curves_of[job.id] = [make_curve(trial.number) for trial in trials]
        self.events_of.setdefault(job.id, [])
        return job

    def change(self, job_id: str, **changes: Any) -> JobView:
        self.store[job_id] = replace(self.store[job_id], **changes)
        return self.store[job_id]

    def document(self, job_id: str) -> dict[str, object]:
        return {"name": self.job(job_id).name}

    def plan(self, source: str, file: str) -> PlanView:
        return make_plan(self._name(source, file))

    def examine(self, source: str, file: str) -> list[Check]:
        self._name(source, file)
        return [Check(name="model", status=Status.FAIL, text="there is no model", fix="Name one.", exit_code=3)]

    def submit(self, source: str, file: str, idempotency_key: str | None) -> tuple[JobView, bool]:
        self.calls.append(("submit", source, file, idempotency_key))
        name = self._name(source, file)
        if idempotency_key in self.keys:
            first, job_id = self.keys[idempotency_key]
            if first != source:
                raise ConflictError("the Idempotency-Key was used for another space.", hint="Use a new key.")
            return self.store[job_id], False
        job = self.add(make_job(f"{name}-{len(self.store) + 1}"))
        if idempotency_key is not None:
            self.keys[idempotency_key] = (source, job.id)
        return job, True

    def jobs(self, state: str | None, limit: int, cursor: str | None) -> Page:
        found = [job for job in reversed(self.store.values()) if state in (None, job.state)]
        return _page(found, limit, cursor)

    def job(self, job_id: str) -> JobView:
        if job_id not in self.store:
            raise NotFoundError(
                f"there is no job {job_id!r}; the nearest is 'demo-1'.", hint="List the jobs with: autotune jobs"
            )
        return self.store[job_id]

    def trials(self, job_id: str, state: str | None, limit: int, cursor: str | None, stage: str | None = None) -> Page:
        self._check_stage(job_id, stage)
        return _page([trial for trial in self.trials_of[job_id] if state in (None, trial.state)], limit, cursor)

    def trial(self, job_id: str, number: int, stage: str | None = None) -> TrialView:
        self._check_stage(job_id, stage)
        for trial in self.trials_of[job_id]:
            if trial.number == number:
                return trial
        raise NotFoundError(f"job {job_id!r} has no trial {number}.")

    def curves(
        self,
        job_id: str,
        metrics: Sequence[str],
        trials: Sequence[int] | None,
        max_points: int,
        stage: str | None = None,
    ) -> list[CurveView]:
        self._check_stage(job_id, stage)
        return [
            replace(
                curve,
                steps=curve.steps[:max_points],
                metrics={
                    name: values[:max_points]
                    for name, values in curve.metrics.items()
                    if not metrics or name in metrics
                },
            )
            for curve in self.curves_of[job_id]
            if trials is None or curve.trial in trials
        ]

    def advice(self, job_id: str, trial: int | None = None, stage: str | None = None) -> list[AdviceView]:
        self.job(job_id)
        numbers = [one.number for one in self.trials_of[job_id] if trial in (None, one.number)]
        if trial is not None and not numbers:
            raise NotFoundError(f"job {job_id!r} has no trial {trial}.")
        change = ChangeView(path="trainer.optim.lr", before=3e-5, after=1e-5)
        return [
            AdviceView(
                trial=number,
                rule="kl_too_high",
                finding="the KL to the reference was above 0.15 in 80% of the second half, at last 0.3",
                numbers={"share": 0.8, "last": 0.3, "limit": 0.15},
                changes=[change],
                source="a guide",
            )
            for number in numbers
        ]

    def best(self, job_id: str) -> BestView:
        job = self.job(job_id)
        if job.best_trial is None:
            raise NotFoundError(f"no trial of job {job_id!r} has completed within the constraints.")
        return make_best(job, self.trials_of[job_id])

    def export(self, job_id: str, to: str, trial: int | None = None, stage: str | None = None) -> ExportView:
        self._check_stage(job_id, stage)
        number = self.best(job_id).trial.number if trial is None else self.trial(job_id, trial).number
        if to not in ("native", "verl", "yaml"):
            raise UsageError(f"unknown form {to!r}; known are native, verl, yaml.")
        return ExportView(job=job_id, trial=number, to=to, text="python -m trainer lr=1e-4\n", notes=["look at it."])

    def events(self, job_id: str, after: int, limit: int) -> list[EventView]:
        self.job(job_id)
        return [event for event in self.events_of[job_id] if event.id > after][:limit]

    def logs(self, job_id: str, trial: int | None, tail: int, stage: str | None = None) -> str:
        self._check_stage(job_id, stage)
        if trial is not None:
            self.trial(job_id, trial)
        return "".join(self.log.splitlines(keepends=True)[-tail:])

    def cancel(self, job_id: str) -> JobView:
        check_job_transition(job_id, JobState(self.job(job_id).state), JobState.CANCELLED)
        return self.change(job_id, state="cancelled")

    def pause(self, job_id: str) -> JobView:
        check_job_transition(job_id, JobState(self.job(job_id).state), JobState.PAUSED)
        return self.change(job_id, state="paused")

    def stop(self, job_id: str) -> JobView:
        check_job_transition(job_id, JobState(self.job(job_id).state), JobState.STOPPING)
        return self.change(job_id, state="stopping")

    def edit(self, job_id: str, budget: Mapping[str, Any] | None, priority: int | None) -> JobView:
        self.calls.append(("edit", job_id, budget, priority))
        changes = {"budget_trials": budget["trials"]} if budget and "trials" in budget else {}
        return self.change(self.job(job_id).id, **changes)

    def edit_space(self, job_id: str, changes: Mapping[str, Any], stage: str | None) -> JobView:
        self.calls.append(("edit_space", job_id, dict(changes), stage))
        return self.job(job_id)

    def enqueue(self, job_id: str, params: Mapping[str, Any]) -> EventView:
        record = self.events_of[self.job(job_id).id]
        event = EventView(
            id=len(record) + 1, at=1.0, kind="job.enqueue", text="enqueued", trial=None, data={"params": dict(params)}
        )
        record.append(event)
        return event

    def resume(self, job_id: str) -> JobView:
        job = self.job(job_id)
        if job.state == JobState.PAUSED:
            return self.change(job_id, state="running")
        if job.state not in JOB_ENDS:
            return job
        check_job_transition(job_id, JobState(job.state), JobState.QUEUED)
        return self.change(job_id, state="queued")

    def spaces(self) -> list[SpaceView]:
        return [SpaceView(name="quickstart", description="Digits on a CPU", path="/nowhere/quickstart.yaml")]

    def register(self, job_id: str, name: str | None = None) -> ModelVersionView:
        job = self.job(job_id)
        return ModelVersionView(
            job=job_id,
            trial=job.best_trial or 0,
            step=40,
            name=name or job.name,
            version="1",
            run="abc123",
            source="mlflow-artifacts:/1/abc123/artifacts/model/step_40",
            created=True,
        )

    def report(self, job_id: str, form: str = "html") -> Path:
        self.job(job_id)
        texts = {"html": f"<!doctype html><title>{job_id}</title>", "markdown": f"# {job_id}\n", "json": "{}\n"}
        path = self.directory / {"html": "report.html", "markdown": "report.md", "json": "report.json"}[form]
        path.write_text(texts[form])
        return path

    def occupancy(self):
        return self.held

    def ready(self) -> Mapping[str, str]:
        return self.components

    def ping(self) -> None:
        """The fake is always there."""

    def _check_stage(self, job_id: str, stage: str | None) -> None:
        names = [one.name for one in self.job(job_id).stages]
        if stage is not None and stage not in names:
            raise NotFoundError(f"job {job_id!r} has no stage {stage!r}; its stages are {', '.join(names)}.")

    def _name(self, source: str, file: str) -> str:
        document = yaml.safe_load(source)
        if not isinstance(document, dict) or "search" not in document:
            problems = [
                Problem(message="a search is missing.", hint="Add search:", path="search", file=file, line=1, column=1),
                Problem(message="a second thing.", file=file, line=2, column=7),
            ]
            raise InvalidSpaceError(f"{file} has 2 problems.", hint="Compare with search_spaces/.", problems=problems)
        return str(document.get("name", "space"))


def _page(items: Sequence[Any], limit: int, cursor: str | None) -> Page:
    start = int(cursor or 0)
    following = start + limit
    return Page(items=list(items[start:following]), next=str(following) if following < len(items) else None)
