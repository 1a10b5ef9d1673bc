"""Writes a job's report from what the service can show of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.errors import NotFoundError, UsageError
from autotune.spec.nearest import did_you_mean
from autotune.states import JOB_ENDS, JobState
from autotune.views import BestView, TrialView

if TYPE_CHECKING:
    from autotune.service.service import Service


_CURVES, _POINTS = 300, 500
"""Curves in a report, and points of each: a file that is sent around must open, however many trials there were."""


def drawn(trials: Sequence[TrialView], best: BestView | None) -> list[int] | None:
    """The trials whose curves a report has: all, or of very many the best, the default, and the newest others.

    Returns:
        Their numbers; ``None`` = all.
    """
    if len(trials) <= _CURVES:
        return None
    first = {best.trial.number} if best is not None else set()
    ranked = sorted(trials, key=lambda one: (one.number in first, one.source == "default", one.number), reverse=True)
    return sorted(trial.number for trial in ranked[:_CURVES])


def report_job(service: Service, job_id: str, form: str = "html") -> Path:
    """Writes the report unless the one that is there was written after the job ended; returns its path.

    Raises:
        UsageError: If there is no such form.
    """
    from autotune.reports import FORMATS, write_report

    if form not in FORMATS:
        raise UsageError(f"format: got {form!r}, allowed are {', '.join(FORMATS)}.", hint=did_you_mean(form, FORMATS))
    job = service.job(job_id)
    directory = service.settings.job_dir(job.id)
    path = directory / f"report{FORMATS[form]}"
    ended = JobState(job.state) in JOB_ENDS and job.ended_at is not None
    if ended and path.is_file() and path.stat().st_mtime >= (job.ended_at or 0.0):
        return path
    try:
        best = service.best(job_id)
    except NotFoundError:
        best = None
    trials = service.trials(job_id, limit=100_000).items
    write_report(
        job=job,
        trials=trials,
        curves=service.curves(job_id, trials=drawn(trials, best), max_points=_POINTS),
        best=best,
        events=service.events(job_id, limit=100_000),
        document=service.document(job_id),
        directory=directory,
        advice=service.advice(job_id),
    )
    return path
