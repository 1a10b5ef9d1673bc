"""A trial's configuration as something to take home."""

from __future__ import annotations

from autotune.backends.exporting import export
from autotune.service.present import trial_view
from autotune.service.spaces import resolve_document
from autotune.service.staging import named
from autotune.service.winner import winner_view
from autotune.store import Store
from autotune.views import ExportView


def export_view(store: Store, job_id: str, to: str, number: int | None, stage: str | None) -> ExportView:
    """A configuration in another form, with its origin in comments above it.

    Args:
        store: The study database.
        job_id: The job.
        to: Name of the form.
        number: The trial; ``None`` = the best one.
        stage: Name of the trial's stage; ``None`` = the one that the job is at.

    Raises:
        NotFoundError: If there is no such job, stage or trial, or no trial has completed within the constraints.
        UsageError: If the job's configurations have no such form.
        InvalidConfigError: If the configuration cannot be brought into it.
    """
    if number is None:
        best = winner_view(store, job_id).trial
        number, stage = best.number, stage or best.stage or None
    with store.read() as work:
        job = work.jobs.get(job_id)
        study = named(work.jobs.studies(job_id), job_id, stage)
        record = work.trials.get(job_id, number, study.stage)
    space = resolve_document(job.document, job.file).parts[study.stage].space
    made = export(space.trainer, record.trial.config, to, gpus=space.resources.gpus)
    trial = trial_view(record, job, study)
    at = f" of stage {trial.stage}" if trial.stage else ""
    worth = "" if trial.value is None else f", {space.objective.metric} {trial.value:.4g}"
    head = [f"# Job {job.id}, trial {trial.number}{at} ({trial.state}{worth} after {trial.last_step} steps)."]
    head += [f"# Note: {note}" for note in made.notes]
    text = "\n".join([*head, made.text])
    return ExportView(job=job.id, trial=trial.number, to=to, text=text, notes=list(made.notes))
