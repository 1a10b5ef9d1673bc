"""The best trial of a job with its evidence."""

from __future__ import annotations

from pathlib import Path

from autotune.errors import NotFoundError
from autotune.search.book import History
from autotune.search.ranking import best_of, front
from autotune.service.present import best_view, trial_view
from autotune.service.spaces import resolve_document
from autotune.service.staging import as_it_runs, handed_over, shown, winner_of
from autotune.states import TrialState
from autotune.store import Store
from autotune.views import BestView


def winner_view(store: Store, job_id: str) -> BestView:
    """The best feasible completed trial; with stages the winner of the one that the job is at.

    Raises:
        NotFoundError: If there is no such job, or no trial has completed within the constraints.
    """
    with store.read() as work:
        job = work.jobs.get(job_id)
        studies = work.jobs.studies(job_id)
        study = shown(studies)
        every = [work.trials.list(job_id, earlier.stage) for earlier in studies[: study.stage + 1]]
    parts = resolve_document(job.document, job.file).parts
    given = handed_over(parts, studies, study.stage, lambda one: History(trials=[r.trial for r in every[one.stage]]))
    resolved = as_it_runs(parts[study.stage], given)
    records = {record.trial.number: record for record in every[study.stage]}
    winner = winner_of(study)
    trials = [record.trial for record in records.values()]
    objective = resolved.space.objective
    best = records[winner].trial if winner in records else best_of(trials, objective)
    ahead = front(trials, objective) if objective.also else []
    if best is None:
        completed = [trial for trial in trials if trial.state is TrialState.COMPLETED]
        why = "none completed yet" if not completed else "each completed one breaks a constraint"
        where = f" in stage {study.title!r}" if study.title else ""
        raise NotFoundError(
            f"job {job_id!r} has no best trial{where}: {why}.", hint=f"See its trials with: autotune show {job_id}"
        )
    default = next((record for record in records.values() if record.trial.source == "default"), None)
    view = trial_view(records[best.number], job, study)
    return best_view(
        job,
        resolved,
        view,
        None if default is None else trial_view(default, job, study),
        last_checkpoint(Path(view.directory), best.reason.numbers.get("best_step") if best.reason else None),
        trials,
        [trial_view(records[one.number], job, study) for one in ahead],
    )


def last_checkpoint(directory: Path, until: float | None) -> str | None:
    """The newest checkpoint, of a trial that was completed at its peak the newest one up to there."""
    found = [path for path in (directory / "checkpoints").glob("step_*") if path.name[5:].isdigit()]
    found = [path for path in found if until is None or int(path.name[5:]) <= until]
    return str(max(found, key=lambda path: int(path.name[5:]))) if found else None
