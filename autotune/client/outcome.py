"""Whether a job has a result."""

from __future__ import annotations

from autotune.errors import JobFailedError, WaitTimeoutError
from autotune.states import JOB_ENDS, JobState, TrialState
from autotune.views import JobView


def check_succeeded(job: JobView) -> None:
    """Refuses a job that has no result to end with.

    Raises:
        JobFailedError: If the job failed, was cancelled, has not ended, or not one of its trials completed.
    """
    hint = f"Look at why with: autotune show {job.id} and autotune logs {job.id}"
    if job.state == JobState.FAILED:
        why, fix = (job.error.message, job.error.hint) if job.error else ("no reason was recorded.", "")
        raise JobFailedError(f"job {job.id!r} failed: {why}", hint=fix or hint)
    if job.state == JobState.CANCELLED:
        raise JobFailedError(f"job {job.id!r} was cancelled.", hint=f"Go on with it: autotune launch --resume {job.id}")
    if job.state not in JOB_ENDS:
        raise JobFailedError(
            f"job {job.id!r} was left before its end: it is {job.state}.",
            hint=f"Go on with it: autotune launch --resume {job.id}",
        )
    if not job.trials.get(TrialState.COMPLETED, 0):
        counts = ", ".join(f"{count} {state}" for state, count in job.trials.items() if count) or "none ran"
        raise JobFailedError(f"not one trial of job {job.id!r} completed ({counts}).", hint=hint)


def waited_in_vain(job: JobView, timeout: float) -> WaitTimeoutError:
    """The error for a wait that was given up."""
    return WaitTimeoutError(
        f"job {job.id!r} is still {job.state} after {timeout:g} s; it goes on.",
        hint=f"Look at it with: autotune show {job.id}",
    )
