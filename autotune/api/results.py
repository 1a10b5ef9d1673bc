"""Routes of what a job has found: trials, curves, the best configuration, events, logs and the report."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import FileResponse, PlainTextResponse

from autotune.api.context import Cursor, JobId, Limit, Service, TrialPage
from autotune.api.problems import documented
from autotune.states import TrialState
from autotune.views import BestView, CurveView, EventView, TrialView

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["results"])

# The report carries its own scripts and reaches for nothing else; its parallel coordinates compile WebGL code.
REPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; worker-src blob:"
)

Number = Annotated[int, Path(ge=0, description="The trial's number within its job.")]


@router.get("/trials", operation_id="listTrials", responses=documented(400, 404))
def list_trials(
    service: Service,
    job_id: JobId,
    state: Annotated[TrialState | None, Query(description="Only trials in this state.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> TrialPage:
    """Lists the job's trials by number."""
    page = service.trials(job_id, None if state is None else str(state), limit, cursor)
    return TrialPage(items=page.items, next=page.next)


@router.get("/trials/{number}", operation_id="getTrial", responses=documented(400, 404))
def get_trial(service: Service, job_id: JobId, number: Number) -> TrialView:
    """Shows one trial."""
    return service.trial(job_id, number)


@router.get("/curves", operation_id="getCurves", responses=documented(400, 404))
def get_curves(
    service: Service,
    job_id: JobId,
    metric: Annotated[list[str] | None, Query(description="Metric names; none = all.")] = None,
    trial: Annotated[list[int] | None, Query(description="Trial numbers; none = all.")] = None,
    max_points: Annotated[int, Query(ge=2, le=10_000, description="Largest number of steps a trial.")] = 500,
) -> list[CurveView]:
    """Shows metrics over steps, column by column."""
    return service.curves(job_id, metric or [], trial, max_points)


@router.get("/best", operation_id="getBest", responses=documented(404, 409))
def get_best(service: Service, job_id: JobId) -> BestView:
    """Shows the best configuration with its evidence."""
    return service.best(job_id)


@router.get("/events", operation_id="listEvents", responses=documented(400, 404))
def list_events(
    service: Service,
    job_id: JobId,
    after: Annotated[int, Query(ge=0, description="Only events with a greater id.")] = 0,
    limit: Limit = 100,
) -> list[EventView]:
    """Lists the job's record, oldest first."""
    return service.events(job_id, after, limit)


@router.get(
    "/logs",
    operation_id="getLogs",
    response_class=PlainTextResponse,
    responses=documented(400, 404),
)
def get_logs(
    service: Service,
    job_id: JobId,
    trial: Annotated[int | None, Query(ge=0, description="A trial's number; none = the job's driver.")] = None,
    tail: Annotated[int, Query(ge=1, le=100_000, description="Number of lines from the end.")] = 200,
) -> PlainTextResponse:
    """Shows the end of a log."""
    return PlainTextResponse(service.logs(job_id, trial, tail))


@router.get(
    "/report",
    operation_id="getReport",
    response_class=FileResponse,
    responses={200: {"description": "The report", "content": {"text/html": {}}}, **documented(404)},
)
def get_report(service: Service, job_id: JobId) -> FileResponse:
    """Shows the job's self-contained HTML report, writing it first when it is missing."""
    path = service.report(job_id)
    return FileResponse(path, media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY})
