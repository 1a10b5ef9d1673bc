"""What a job leaves running when it ends: nothing may be called running that nobody runs."""

from __future__ import annotations

from pathlib import Path

from autotune.execution.unpaid import unpaid_s
from autotune.search.population import directory_of as trial_directory
from autotune.search.types import Trial
from autotune.service.staging import directory_of
from autotune.store.database import UnitOfWork


def end_running(work: UnitOfWork, job_dir: Path, job: str, now: float, why: str) -> int:
    """Cancels a job's running trials, whose processes have ended, and charges them for what nobody heard of.

    Args:
        work: An open transaction, in which the job ends.
        job_dir: The job's directory.
        job: Its id.
        now: Epoch seconds.
        why: Why the job ends, as a clause.

    Returns:
        How many there were.
    """
    studies = {study.stage: study for study in work.jobs.studies(job)}

    def unpaid(stage: int, trial: Trial, heard_at: float) -> float:
        trials = directory_of(job_dir, studies[stage]) / "trials"
        return unpaid_s(trials / trial_directory(trial.number), heard_at)

    return work.trials.cancel_running(job, now, why, unpaid)
