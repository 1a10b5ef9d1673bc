"""From what the store and the search hold to what people are shown."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from autotune.backends.exporting import launch_line
from autotune.search.advisor import Advised, advised_trials
from autotune.search.finalists import Finalist, finalists_of, finding, finding_of_front
from autotune.search.ranking import best_of, front
from autotune.search.types import Trial
from autotune.service.spaces import ResolvedSpace
from autotune.service.staging import directory_of, shown, winner_of
from autotune.spec.types import Direction, Objective
from autotune.spec.values import JsonValue
from autotune.states import TrialState
from autotune.store.values import EventRecord, Job, Study, Totals, TrialRecord
from autotune.views import (
    AdvisedView,
    BestView,
    CheckView,
    ErrorView,
    EventView,
    FinalistView,
    JobView,
    ObjectiveView,
    ReasonView,
    StageView,
    TrialView,
)


def stage_document(document: Mapping[str, Any], place: int) -> Mapping[str, Any]:
    """One stage of a job's document with what it shares with the others; the document itself without stages."""
    stages = document.get("stages")
    return {**document, **stages[place]} if isinstance(stages, list) else document


def objective_of(document: Mapping[str, Any]) -> Objective:
    """The objective as the document of a job without stages, or of one stage, has it."""
    several = document.get("objectives")
    first, *others = [
        Objective(metric=one["metric"], direction=Direction(one.get("direction", "maximize")))
        for one in (several or [document["objective"]])
    ]
    return replace(first, also=tuple(others))


def objective_views(objective: Objective) -> list[ObjectiveView]:
    """All objectives where there are several."""
    views = [ObjectiveView(metric=one.metric, direction=one.direction.value) for one in objective.each]
    return views if objective.also else []


def job_view(
    job: Job,
    totals: Mapping[int, Totals],
    studies: Sequence[Study],
    trials: Mapping[int, Sequence[Trial]],
    waits: str = "",
) -> JobView:
    """A job as people see it.

    Args:
        job: The job.
        totals: Place of a stage -> its sums.
        studies: The stages' studies.
        trials: Place of a stage -> its trials, at least those of the stage that the job is at.
        waits: What a queued job waits for.
    """
    whole: Mapping[str, Any] = job.document
    present = shown(studies)
    document = stage_document(whole, present.stage)
    objective = objective_of(document)
    best = _best(present, objective, trials.get(present.stage, ()))
    default = next((trial for trial in trials.get(present.stage, ()) if trial.source == "default"), None)
    parts = [stage_document(whole, study.stage) for study in studies]
    cost = {place: one.cost_s for place, one in totals.items()}
    return JobView(
        id=job.id,
        name=job.name,
        waits=waits,
        description=str(whole.get("description", "")),
        owner=job.owner,
        team=job.team,
        priority=job.priority,
        state=job.state.value,
        created_at=job.created_at,
        started_at=job.started_at,
        ended_at=job.ended_at,
        objective=ObjectiveView(metric=objective.metric, direction=objective.direction.value),
        trials={state.value: sum(one.states.get(state.value, 0) for one in totals.values()) for state in TrialState},
        budget_trials=sum(int(part["budget"]["trials"]) for part in parts),
        parallel=int(document["budget"].get("parallel", 1)),
        steps=int(document["budget"]["steps"]),
        best_trial=best.number if best else None,
        best_value=best.value if best else None,
        default_value=default.value if default else None,
        cost_s=sum(cost.values()),
        cost_gpu_hours=sum(cost.get(study.stage, 0.0) * _gpus(part) for study, part in zip(studies, parts, strict=True))
        / 3600,
        error=None if job.error is None else ErrorView(**asdict(job.error)),
        directory=job.directory,
        mlflow_run=job.mlflow_run,
        stage=present.title,
        stages=[
            _stage_view(job, study, part, totals.get(study.stage, Totals()), trials.get(study.stage, ()))
            for study, part in zip(studies, parts, strict=True)
            if study.title
        ],
        objectives=objective_views(objective),
        front=[one.number for one in front(trials.get(present.stage, ()), objective)] if objective.also else [],
        advised=advised_views(trials.get(present.stage, ()), objective),
    )


def advised_views(trials: Sequence[Trial], objective: Objective) -> list[AdvisedView]:
    """What became of the trials that came from advice, by rule in the order of their first trials."""
    by_rule: dict[str, list[Advised]] = {}
    for one in advised_trials(trials, objective):
        by_rule.setdefault(one.rule, []).append(one)
    return [
        AdvisedView(
            rule=rule,
            trials=[one.trial for one in found],
            better=sum(one.better is True for one in found),
            open=sum(one.better is None for one in found),
        )
        for rule, found in by_rule.items()
    ]


def _stage_view(
    job: Job, study: Study, document: Mapping[str, Any], totals: Totals, trials: Sequence[Trial]
) -> StageView:
    objective = objective_of(document)
    best = _best(study, objective, trials)
    written = document.get("pass") or []
    verdict: Mapping[str, Any] = study.verdict or {}
    return StageView(
        name=study.title,
        state=_stage_state(job, study),
        objective=ObjectiveView(metric=objective.metric, direction=objective.direction.value),
        trials={state.value: totals.states.get(state.value, 0) for state in TrialState},
        budget_trials=int(document["budget"]["trials"]),
        steps=int(document["budget"]["steps"]),
        criteria=[written] if isinstance(written, str) else [str(text) for text in written],
        checks=[CheckView(**check) for check in verdict.get("checks", [])],
        best_trial=best.number if best else None,
        best_value=best.value if best else None,
        cost_s=totals.cost_s,
        started_at=study.started_at,
        ended_at=study.ended_at,
    )


def _stage_state(job: Job, study: Study) -> str:
    if study.verdict is not None:
        return "passed" if study.verdict.get("passed") else "failed"
    return job.state.value if study.started_at is not None else "queued"


def _best(study: Study, objective: Objective, trials: Sequence[Trial]) -> Trial | None:
    """A stage's winner, or the best trial so far."""
    winner = winner_of(study)
    named = next((trial for trial in trials if trial.number == winner), None)
    return named or best_of(trials, objective)


def _gpus(document: Mapping[str, Any]) -> float:
    return float(document.get("resources", {}).get("gpus", 0))


def trial_view(record: TrialRecord, job: Job, study: Study) -> TrialView:
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
        values=dict(trial.values),
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
        directory=f"{directory_of(Path(job.directory), study)}/trials/{trial.number:04d}" if job.directory else "",
        stage=study.title,
    )


def event_view(record: EventRecord, stages: Sequence[str] = ()) -> EventView:
    """An event as people see it; ``stages`` are the names of the job's stages."""
    event = record.event
    return EventView(
        id=record.id,
        at=event.at,
        kind=event.kind,
        text=event.text,
        trial=event.trial,
        data=dict(event.data),
        stage=stages[record.stage] if record.stage < len(stages) else "",
    )


def best_view(
    job: Job,
    resolved: ResolvedSpace,
    best: TrialView,
    default: TrialView | None,
    checkpoint: str | None,
    trials: Sequence[Trial],
    ahead: Sequence[TrialView] = (),
) -> BestView:
    """The answer of a job with its evidence; ``trials`` are all of the job's, ``ahead`` those on the front."""
    space, objective = resolved.space, resolved.space.objective
    improvement = None
    if default is not None and default.value is not None and best.value is not None:
        sign = 1 if objective.direction is Direction.MAXIMIZE else -1
        improvement = sign * (best.value - default.value)
    finalists = finalists_of(trials, objective)
    overrides = hydra_overrides(resolved, best.params)
    command = launch_line(space.trainer, {**resolved.base, **best.params}, space.resources.gpus)
    return BestView(
        job=job.id,
        objective=ObjectiveView(metric=objective.metric, direction=objective.direction.value),
        trial=best,
        overrides=overrides,
        command=shlex.join(command),
        checkpoint=checkpoint,
        default=default,
        improvement=improvement,
        finalists=[_finalist_view(one) for one in finalists],
        finding=finding_of_front(finalists, objective) if objective.also else finding(finalists, objective.metric),
        objectives=objective_views(objective),
        front=list(ahead),
    )


def _finalist_view(one: Finalist) -> FinalistView:
    means: dict[str, list[float | None]] = {metric: list(pair) for metric, pair in one.means.items()}
    return FinalistView(**{**asdict(one), "values": list(one.values), "means": means})


def hydra_overrides(resolved: ResolvedSpace, params: Mapping[str, JsonValue]) -> list[str]:
    """Everything in which a trial differs from the Hydra configuration, as ``key=value``."""
    fixed = resolved.space.trainer.overrides
    values: dict[str, JsonValue] = {**fixed, resolved.steps_path: resolved.steps, **resolved.carried, **params}
    return [f"{path}={_written(value)}" for path, value in values.items()]


def _written(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)
