"""The states of jobs and trials, and the one table of what may follow what."""

from __future__ import annotations

from enum import StrEnum

from autotune.errors import IllegalTransitionError


class JobState(StrEnum):
    """Where a job is in its life."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TrialState(StrEnum):
    """Where a trial is in its life."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    PRUNED = "pruned"
    """Stopped by a pruner; carries the pruner's name and its reason."""
    INFEASIBLE = "infeasible"
    """The configuration cannot work (out of memory, rejected, not finite); the sampler learns from it."""
    FAILED = "failed"
    """The infrastructure broke and the retries are spent; never told to the sampler as a result."""
    CANCELLED = "cancelled"


_JOB: dict[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset({JobState.RUNNING, JobState.PAUSED, JobState.CANCELLED, JobState.FAILED}),
    JobState.RUNNING: frozenset(
        {JobState.QUEUED, JobState.PAUSED, JobState.STOPPING, JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED}
    ),
    # A paused job whose running trials were its last is complete; one without a driver is queued to go on.
    JobState.PAUSED: frozenset(
        {JobState.QUEUED, JobState.RUNNING, JobState.STOPPING, JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED}
    ),
    JobState.STOPPING: frozenset({JobState.QUEUED, JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED}),
    JobState.COMPLETED: frozenset(),
    JobState.FAILED: frozenset({JobState.QUEUED}),
    JobState.CANCELLED: frozenset({JobState.QUEUED}),
}

_TRIAL: dict[TrialState, frozenset[TrialState]] = {
    TrialState.QUEUED: frozenset({TrialState.RUNNING, TrialState.INFEASIBLE, TrialState.CANCELLED}),
    TrialState.RUNNING: frozenset(set(TrialState) - {TrialState.RUNNING}),
    TrialState.PAUSED: frozenset({TrialState.RUNNING, TrialState.PRUNED, TrialState.CANCELLED}),
    TrialState.COMPLETED: frozenset(),
    TrialState.PRUNED: frozenset(),
    TrialState.INFEASIBLE: frozenset(),
    TrialState.FAILED: frozenset({TrialState.QUEUED}),
    TrialState.CANCELLED: frozenset({TrialState.QUEUED}),
}

JOB_ENDS: frozenset[JobState] = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED})
"""A job in one of these does no more work until somebody resumes it."""

TRIAL_ENDS: frozenset[TrialState] = frozenset(
    {TrialState.COMPLETED, TrialState.PRUNED, TrialState.INFEASIBLE, TrialState.FAILED, TrialState.CANCELLED}
)
"""A trial in one of these has its verdict."""


def check_job_transition(job: str, old: JobState, new: JobState) -> None:
    """Refuses a change of a job's state that the table does not allow.

    Raises:
        IllegalTransitionError: If ``new`` cannot follow ``old``.
    """
    if new not in _JOB[old]:
        raise IllegalTransitionError(
            f"job {job!r} is {old} and cannot become {new}; allowed from here: {_names(_JOB[old])}.",
            hint=f"Look at it with: autotune show {job}",
        )


def check_trial_transition(trial: str, old: TrialState, new: TrialState) -> None:
    """Refuses a change of a trial's state that the table does not allow.

    Raises:
        IllegalTransitionError: If ``new`` cannot follow ``old``.
    """
    if new not in _TRIAL[old]:
        raise IllegalTransitionError(
            f"trial {trial} is {old} and cannot become {new}; allowed from here: {_names(_TRIAL[old])}."
        )


def _names(states: frozenset[JobState] | frozenset[TrialState]) -> str:
    return ", ".join(sorted(states)) or "nothing, it is final"
