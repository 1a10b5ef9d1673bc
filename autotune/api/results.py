"""Routes of what a job is and has found: space, trials, curves, the best configuration, events, logs, the report."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.responses import FileResponse, PlainTextResponse
from fastapi.sse import EventSourceResponse
from pydantic import Field

from autotune.api.bodies import WantedModel, WantedTrial
from autotune.api.context import MAX_NUMBER, Cursor, JobId, Limit, News, Service, TrialPage
from autotune.api.problems import documented
from autotune.api.stream import MAX_EVENT_ID, MEDIA_TYPE, position, stream_response, wants_stream
from autotune.states import TrialState
from autotune.views import AdviceView, BestView, CurveView, EventView, ExportView, ModelVersionView, TrialView

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["results"])

# The report carries its own scripts and reaches for nothing else; its parallel coordinates compile WebGL code.
REPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; worker-src blob:"
)

REPORTS = {"html": "text/html", "markdown": "text/markdown; charset=utf-8", "json": "application/json"}
"""Form of a report -> its media type."""

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events, oldest first: a list, or a stream that ends with the job",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
    }
}

Stage = Annotated[str | None, Query(max_length=63, description="Name of a stage; none = the one that the job is at.")]
Number = Annotated[int, Path(ge=0, le=MAX_NUMBER, description="The trial's number within its job.")]


@router.get("/trials", operation_id="listTrials", responses=documented(400, 404, 422))
def list_trials(
    service: Service,
    job_id: JobId,
    state: Annotated[TrialState | None, Query(description="Only trials in this state.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    stage: Stage = None,
) -> TrialPage:
    """Lists the job's trials by number."""
    page = service.trials(job_id, None if state is None else str(state), limit, cursor, stage)
    return TrialPage(items=page.items, next=page.next)


@router.post(
    "/trials",
    operation_id="enqueueTrial",
    status_code=201,
    responses={
        201: {"description": "The event that records it; the trial's source will be `enqueued:{id}`"},
        **documented(400, 403, 404, 409, 413, 422),
    },
)
def enqueue_trial(service: Service, job_id: JobId, wanted: WantedTrial) -> EventView:
    """Lets the job try a configuration next; what is not named keeps the configuration's own value."""
    return service.enqueue(job_id, wanted.params)


@router.get("/trials/{number}", operation_id="getTrial", responses=documented(400, 404))
def get_trial(service: Service, job_id: JobId, number: Number, stage: Stage = None) -> TrialView:
    """Shows one trial."""
    return service.trial(job_id, number, stage)


@router.get("/advice", operation_id="getAdvice", responses=documented(400, 404))
def get_advice(
    service: Service,
    job_id: JobId,
    trial: Annotated[int | None, Query(ge=0, le=MAX_NUMBER, description="A trial's number; none = all trials.")] = None,
    stage: Stage = None,
) -> list[AdviceView]:
    """Shows what rules on curves find in the job's trials, each with its numbers and a change to try."""
    return service.advice(job_id, trial, stage)


@router.get("/curves", operation_id="getCurves", responses=documented(400, 404))
def get_curves(
    service: Service,
    job_id: JobId,
    metric: Annotated[list[str] | None, Query(description="Metric names; none = all.")] = None,
    trial: Annotated[
        list[Annotated[int, Field(ge=0, le=MAX_NUMBER)]] | None, Query(description="Trial numbers; none = all.")
    ] = None,
    max_points: Annotated[int, Query(ge=2, le=10_000, description="Largest number of steps a trial.")] = 500,
    stage: Stage = None,
) -> list[CurveView]:
    """Shows metrics over steps, column by column."""
    return service.curves(job_id, metric or [], trial, max_points, stage)


@router.get("/space", operation_id="getSpace", responses=documented(404))
def get_space(service: Service, job_id: JobId) -> dict[str, Any]:
    """Shows the job's space file as it was resolved at submission: what `extends` named is in it."""
    return dict(service.document(job_id))


@router.get("/best", operation_id="getBest", responses=documented(404, 409))
def get_best(service: Service, job_id: JobId) -> BestView:
    """Shows the best configuration with its evidence."""
    return service.best(job_id)


@router.get("/export", operation_id="exportTrial", responses=documented(400, 404, 409, 422))
def export_trial(
    service: Service,
    job_id: JobId,
    to: Annotated[str, Query(max_length=20, description="Form: native, verl, command or yaml.")],
    trial: Annotated[
        int | None, Query(ge=0, le=MAX_NUMBER, description="A trial's number; none = the best one.")
    ] = None,
    stage: Stage = None,
) -> ExportView:
    """Shows a trial's configuration as a launch command or as YAML."""
    return service.export(job_id, to, trial, stage)


@router.get(
    "/events",
    operation_id="listEvents",
    response_model=list[EventView],
    responses={**_STREAM, **documented(400, 404)},
)
def list_events(
    request: Request,
    service: Service,
    feed: News,
    job_id: JobId,
    after: Annotated[int, Query(ge=0, le=MAX_EVENT_ID, description="Only events with a greater id.")] = 0,
    limit: Limit = 100,
    last_event_id: Annotated[
        str | None, Header(max_length=1024, description="Streams only: the last id received; wins over `after`.")
    ] = None,
) -> list[EventView] | EventSourceResponse:
    """Lists the job's record, oldest first; follows it with `Accept: text/event-stream`.

    A stream sends one message for each event (`id` = the event's id, `data` = the event), a comment at least every
    15 seconds, and at last, when the job has ended and everything is sent, a message of the type `end` whose data
    is `{"state": ...}`. After a broken connection go on with the header `Last-Event-ID`.
    """
    if not wants_stream(request.headers.get("accept", "")):
        return service.events(job_id, after, limit)
    seen = position(last_event_id, after)
    return stream_response(feed, job_id, seen, service.job(job_id).state)


@router.get(
    "/logs",
    operation_id="getLogs",
    response_class=PlainTextResponse,
    responses=documented(400, 404),
)
def get_logs(
    service: Service,
    job_id: JobId,
    trial: Annotated[
        int | None, Query(ge=0, le=MAX_NUMBER, description="A trial's number; none = the job's driver.")
    ] = None,
    tail: Annotated[int, Query(ge=1, le=100_000, description="Number of lines from the end.")] = 200,
    stage: Stage = None,
) -> PlainTextResponse:
    """Shows the end of a log."""
    return PlainTextResponse(service.logs(job_id, trial, tail, stage))


@router.post("/model", operation_id="registerModel", responses=documented(400, 403, 404, 409, 413, 422, 503))
def register_model(service: Service, job_id: JobId, wanted: WantedModel) -> ModelVersionView:
    """Registers the best trial's checkpoint as a model version in MLflow; this may take minutes."""
    return service.register(job_id, wanted.name)


@router.get(
    "/report",
    operation_id="getReport",
    response_class=FileResponse,
    responses={
        200: {"description": "The report", "content": {kind: {} for kind in REPORTS.values()}},
        **documented(400, 404),
    },
)
def get_report(
    service: Service,
    job_id: JobId,
    form: Annotated[Literal["html", "markdown", "json"], Query(alias="format", description="In which form.")] = "html",
) -> FileResponse:
    """Shows the job's report, one self-contained file, writing it first when it is missing."""
    path = service.report(job_id, form)
    return FileResponse(path, media_type=REPORTS[form], headers={"Content-Security-Policy": REPORT_POLICY})
