"""Routes of jobs: submit, list, look at, edit, pause, resume, stop, cancel; and what a space would do."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from autotune.api.bodies import JobChanges
from autotune.api.context import SPACE_BODY, Cursor, JobId, JobPage, Key, Limit, Service, Source
from autotune.api.problems import documented
from autotune.states import JobState
from autotune.views import JobView, PlanView, SpaceView

router = APIRouter(prefix="/v1")

_CREATED: dict[int | str, dict[str, Any]] = {
    201: {
        "description": "The job was stored and waits for its turn",
        "model": JobView,
        "headers": {"Location": {"description": "The job's address", "schema": {"type": "string"}}},
    },
    200: {"description": "The same Idempotency-Key was used before: its job", "model": JobView},
}


@router.post(
    "/jobs",
    operation_id="submitJob",
    tags=["jobs"],
    status_code=201,
    responses={**_CREATED, **documented(400, 403, 409, 413, 415, 422)},
    openapi_extra=SPACE_BODY,
)
def submit_job(service: Service, source: Source, response: Response, key: Key = None) -> JobView:
    """Stores a job for a space file; nothing is stored when anything is wrong with it."""
    job, created = service.submit(source.text, source.file, key)
    response.status_code = 201 if created else 200
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return job


@router.get("/jobs", operation_id="listJobs", tags=["jobs"], responses=documented(400, 422))
def list_jobs(
    service: Service,
    state: Annotated[JobState | None, Query(description="Only jobs in this state.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> JobPage:
    """Lists jobs, newest first."""
    page = service.jobs(None if state is None else str(state), limit, cursor)
    return JobPage(items=page.items, next=page.next)


@router.get("/jobs/{job_id}", operation_id="getJob", tags=["jobs"], responses=documented(404))
def get_job(service: Service, job_id: JobId) -> JobView:
    """Shows one job."""
    return service.job(job_id)


@router.patch(
    "/jobs/{job_id}", operation_id="editJob", tags=["jobs"], responses=documented(400, 403, 404, 409, 413, 422)
)
def edit_job(service: Service, job_id: JobId, changes: JobChanges) -> JobView:
    """Changes a job's budget, its priority, or, while it is at rest, what it searches.

    A running job takes a new budget within a second. A new search is a new version of the space: trials that still fit
    teach the sampler.
    """
    budget = None if changes.budget is None else changes.budget.model_dump(exclude_unset=True)
    if changes.search is None:
        return service.edit(job_id, budget, changes.priority)
    job = service.edit_space(job_id, changes.search, changes.stage)
    return service.edit(job_id, budget, changes.priority) if budget or changes.priority is not None else job


@router.post("/jobs/{job_id}/pause", operation_id="pauseJob", tags=["jobs"], responses=documented(403, 404, 409))
def pause_job(service: Service, job_id: JobId) -> JobView:
    """Starts no new trials; the running ones go on."""
    return service.pause(job_id)


@router.post("/jobs/{job_id}/stop", operation_id="stopJob", tags=["jobs"], responses=documented(403, 404, 409))
def stop_job(service: Service, job_id: JobId) -> JobView:
    """Starts no new trials, lets the running ones finish, and completes the job with what there is."""
    return service.stop(job_id)


@router.post("/jobs/{job_id}/cancel", operation_id="cancelJob", tags=["jobs"], responses=documented(403, 404, 409))
def cancel_job(service: Service, job_id: JobId) -> JobView:
    """Ends the job's running trials now, after a checkpoint, and starts no more."""
    return service.cancel(job_id)


@router.post("/jobs/{job_id}/resume", operation_id="resumeJob", tags=["jobs"], responses=documented(403, 404, 409))
def resume_job(service: Service, job_id: JobId) -> JobView:
    """Goes on with a job; finished trials are kept, interrupted ones go on from their last checkpoint."""
    return service.resume(job_id)


@router.post(
    "/plan",
    operation_id="planSpace",
    tags=["spaces"],
    responses=documented(400, 403, 413, 415, 422),
    openapi_extra=SPACE_BODY,
)
def plan_space(service: Service, source: Source) -> PlanView:
    """Says what a space file would do; nothing is stored."""
    return service.plan(source.text, source.file)


@router.get("/spaces", operation_id="listSpaces", tags=["spaces"], responses=documented())
def list_spaces(service: Service) -> list[SpaceView]:
    """Lists the space files that ship with the project."""
    return service.spaces()
