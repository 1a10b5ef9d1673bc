"""From what the store and the search hold to what people are shown."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from autotune.backends import get_backend
from autotune.search.finalists import finalists_of, finding
from autotune.search.ranking import best_of
from autotune.search.types import Trial
from autotune.service.spaces import ResolvedSpace
from autotune.spec.types import Direction, Objective
from autotune.spec.values import JsonValue
from autotune.states import TrialState
from autotune.store.values import EventRecord, Job, Totals, TrialRecord
from autotune.views import BestView, ErrorView, EventView, FinalistView, JobView, ObjectiveView, ReasonView, TrialView


def objective_of(document: Mapping[str, Any]) -> Objective:
    """The objective as a job's document has it."""
    written = document["objective"]
    return Objective(metric=written["metric"], direction=Direction(written.get("direction", "maximize")))


def job_view(job: Job, totals: Totals, trials: Sequence[Trial]) -> JobView:
    """A job as people see it."""
    document: Mapping[str, Any] = job.document
    objective = objective_of(document)
    best = best_of(trials, objective.direction)
    default = next((trial for trial in trials if trial.source == "default"), None)
    budget = document["budget"]
    gpus = float(document.get("resources", {}).get("gpus", 0))
    return JobView(
        id=job.id,
        name=job.name,
        description=str(document.get("description", "")),
        state=job.state.value,
        created_at=job.created_at,
        started_at=job.started_at,
        ended_at=job.ended_at,
        objective=ObjectiveView(metric=objective.metric, direction=objective.direction.value),
        trials={state.value: totals.states.get(state.value, 0) for state in TrialState},
        budget_trials=int(budget["trials"]),
        parallel=int(budget.get("parallel", 1)),
        steps=int(budget["steps"]),
        best_trial=best.number if best else None,
        best_value=best.value if best else None,
        default_value=default.value if default else None,
        cost_s=totals.cost_s,
        cost_gpu_hours=totals.cost_s * gpus / 3600,
        error=None if job.error is None else ErrorView(**asdict(job.error)),
        directory=job.directory,
        mlflow_run=job.mlflow_run,
    )


def trial_view(record: TrialRecord, directory: str) -> TrialView:
    """A trial as people see it."""
    trial = record.trial
    error = None
    if trial.error_kind is not None:
        error = ErrorView(kind=trial.error_kind.value, message=trial.error_message, hint=trial.error_hint)
    reason = None
    if trial.reason is not None:
        reason = ReasonView(pruner=trial.reason.pruner, text=trial.reason.text, numbers=dict(trial.reason.numbers))
    return TrialView(
        number=trial.number,
        state=trial.state.value,
        source=trial.source,
        params=dict(trial.params),
        value=trial.value,
        feasible=trial.feasible,
        violations=dict(trial.violations),
        reason=reason,
        error=error,
        attempts=trial.attempt.number if trial.attempt else 0,
        last_step=trial.last_step,
        metrics=dict(record.metrics),
        cost_s=trial.cost_s,
        created_at=trial.created_at,
        started_at=trial.started_at,
        ended_at=trial.ended_at,
        directory=f"{directory}/trials/{trial.number:04d}" if directory else "",
    )


def event_view(record: EventRecord) -> EventView:
    """An event as people see it."""
    event = record.event
    return EventView(
        id=record.id, at=event.at, kind=event.kind, text=event.text, trial=event.trial, data=dict(event.data)
    )


def best_view(
    job: Job,
    resolved: ResolvedSpace,
    best: TrialView,
    default: TrialView | None,
    checkpoint: str | None,
    trials: Sequence[Trial],
) -> BestView:
    """The answer of a job with its evidence; ``trials`` are all of the job's."""
    space, objective = resolved.space, resolved.space.objective
    improvement = None
    if default is not None and default.value is not None and best.value is not None:
        sign = 1 if objective.direction is Direction.MAXIMIZE else -1
        improvement = sign * (best.value - default.value)
    finalists = finalists_of(trials, objective.direction)
    overrides = hydra_overrides(resolved, best.params)
    command = get_backend(space.trainer.backend).command_line(space.trainer, {**resolved.base, **best.params})
    return BestView(
        job=job.id,
        objective=ObjectiveView(metric=objective.metric, direction=objective.direction.value),
        trial=best,
        overrides=overrides,
        command=shlex.join(command),
        checkpoint=checkpoint,
        default=default,
        improvement=improvement,
        finalists=[FinalistView(**{**asdict(one), "values": list(one.values)}) for one in finalists],
        finding=finding(finalists, objective.metric),
    )


def hydra_overrides(resolved: ResolvedSpace, params: Mapping[str, JsonValue]) -> list[str]:
    """Everything in which a trial differs from the Hydra configuration, as ``key=value``."""
    fixed = resolved.space.trainer.overrides
    values: dict[str, JsonValue] = {**fixed, resolved.steps_path: resolved.steps, **params}
    return [f"{path}={_written(value)}" for path, value in values.items()]


def _written(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)
