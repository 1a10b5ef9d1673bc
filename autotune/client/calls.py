"""The use cases as requests: each one says what to send and how to read the answer, for either kind of client."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from autotune.client.wire import page_of, value_of, values_of
from autotune.errors import UsageError
from autotune.views import (
    AdviceView,
    BestView,
    CallerView,
    CurveView,
    EventView,
    ExportView,
    IssuedTokenView,
    JobView,
    ModelVersionView,
    Page,
    PlanView,
    SpaceView,
    TeamView,
    TokenView,
    TrialView,
)

if TYPE_CHECKING:
    import httpx2

_T = TypeVar("_T")
_MODEL_S = 3600.0
"""A model is written and copied before the answer comes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call(Generic[_T]):
    """One request and the reader of its answer."""

    method: str
    path: str
    read: Callable[[httpx2.Response], _T]
    query: Mapping[str, Any] = field(default_factory=dict)
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    patience_s: float | None = None
    """Seconds to wait for the answer; ``None`` = the client's own."""


def job_path(job: str) -> str:
    """The address of a job.

    Raises:
        UsageError: If the id is empty.
    """
    if not job:
        raise UsageError("a job's id is missing.", hint="List the jobs with: autotune jobs")
    return f"/v1/jobs/{quote(job, safe='')}"


def plan(source: str, file: str) -> Call[PlanView]:
    """What a space would do."""
    return _space("/v1/plan", source, file, {}, PlanView)


def submit(source: str, file: str, idempotency_key: str | None) -> Call[JobView]:
    """A new job; with a key, so that a repetition never makes two."""
    return _space("/v1/jobs", source, file, {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}, JobView)


def jobs(state: str | None, limit: int, cursor: str | None) -> Call[Page]:
    """A page of jobs."""
    return _page(JobView, "/v1/jobs", {"state": state, "limit": limit, "cursor": cursor})


def job(job: str) -> Call[JobView]:
    """One job."""
    return _get(JobView, job_path(job))


def trials(job: str, state: str | None, limit: int, cursor: str | None, stage: str | None = None) -> Call[Page]:
    """A page of a job's trials."""
    query = {"state": state, "limit": limit, "cursor": cursor, "stage": stage}
    return _page(TrialView, f"{job_path(job)}/trials", query)


def space(job: str) -> Call[dict[str, Any]]:
    """A job's space as plain JSON."""
    return Call(method="GET", path=f"{job_path(job)}/space", read=_document)


def _document(answer: httpx2.Response) -> dict[str, Any]:
    found = answer.json()
    return found if isinstance(found, dict) else {}


def trial(job: str, number: int, stage: str | None = None) -> Call[TrialView]:
    """One trial."""
    return _get(TrialView, f"{job_path(job)}/trials/{number}", {"stage": stage})


def curves(
    job: str, metrics: Sequence[str], trials: Sequence[int] | None, max_points: int, stage: str | None = None
) -> Call[list[CurveView]]:
    """Metrics over steps."""
    query = {"metric": list(metrics), "trial": trials, "max_points": max_points, "stage": stage}
    return _list(CurveView, f"{job_path(job)}/curves", query)


def advice(job: str, trial: int | None, stage: str | None = None) -> Call[list[AdviceView]]:
    """What rules on curves find."""
    return _list(AdviceView, f"{job_path(job)}/advice", {"trial": trial, "stage": stage})


def best(job: str) -> Call[BestView]:
    """The best configuration."""
    return _get(BestView, f"{job_path(job)}/best")


def export(job: str, to: str, trial: int | None, stage: str | None = None) -> Call[ExportView]:
    """A configuration as something to run or to keep."""
    return _get(ExportView, f"{job_path(job)}/export", {"to": to, "trial": trial, "stage": stage})


def events(job: str, after: int, limit: int) -> Call[list[EventView]]:
    """A job's record."""
    return _list(EventView, f"{job_path(job)}/events", {"after": after, "limit": limit})


def logs(job: str, trial: int | None, tail: int, stage: str | None = None) -> Call[str]:
    """The end of a log."""
    return _text(f"{job_path(job)}/logs", {"trial": trial, "tail": tail, "stage": stage})


def report(job: str, form: str) -> Call[str]:
    """The report."""
    return _text(f"{job_path(job)}/report", {"format": form})


def register(job: str, name: str | None) -> Call[ModelVersionView]:
    """The best checkpoint as a model version in MLflow."""
    return Call(
        method="POST",
        path=f"{job_path(job)}/model",
        read=lambda answer: value_of(ModelVersionView, answer),
        content=json.dumps({"name": name}).encode(),
        headers={"Content-Type": "application/json"},
        patience_s=_MODEL_S,
    )


def act(job: str, verb: str) -> Call[JobView]:
    """``pause``, ``resume``, ``stop`` or ``cancel``."""
    return Call(method="POST", path=f"{job_path(job)}/{verb}", read=lambda answer: value_of(JobView, answer))


def edit(
    job: str,
    priority: int | None,
    budget: Mapping[str, Any] | None,
    search: Mapping[str, Any] | None,
    stage: str | None,
) -> Call[JobView]:
    """A change of priority, budget or search; ``None`` leaves it as it is."""
    changes = {
        "priority": priority,
        "budget": None if budget is None else dict(budget),
        "search": None if search is None else dict(search),
        "stage": stage,
    }
    return Call(
        method="PATCH",
        path=job_path(job),
        read=lambda answer: value_of(JobView, answer),
        **_json({name: value for name, value in changes.items() if value is not None}),
    )


def enqueue(job: str, params: Mapping[str, Any]) -> Call[EventView]:
    """A configuration to run next."""
    return Call(
        method="POST",
        path=f"{job_path(job)}/trials",
        read=lambda answer: value_of(EventView, answer),
        **_json({"params": dict(params)}),
    )


def spaces() -> Call[list[SpaceView]]:
    """The shipped space files."""
    return _list(SpaceView, "/v1/spaces", {})


def me() -> Call[CallerView]:
    """Who the service takes us to be."""
    return _get(CallerView, "/v1/me")


def tokens() -> Call[list[TokenView]]:
    """All tokens."""
    return _list(TokenView, "/v1/tokens", {})


def create_token(name: str, role: str, team: str, expires_s: float | None) -> Call[IssuedTokenView]:
    """A new token."""
    return Call(
        method="POST",
        path="/v1/tokens",
        read=lambda answer: value_of(IssuedTokenView, answer),
        **_json({"name": name, "role": role, "team": team, "expires_s": expires_s}),
    )


def revoke_token(token_id: str) -> Call[TokenView]:
    """A token that opens nothing any more."""
    path = f"/v1/tokens/{quote(token_id or '-', safe='')}"
    return Call(method="DELETE", path=path, read=lambda answer: value_of(TokenView, answer))


def teams() -> Call[list[TeamView]]:
    """The teams with a quota or a share of their own."""
    return _list(TeamView, "/v1/teams", {})


def put_team(team: TeamView) -> Call[TeamView]:
    """What a team may use."""
    body = {"parallel_gpus": team.parallel_gpus, "gpu_hours_a_month": team.gpu_hours_a_month, "share": team.share}
    path = f"/v1/teams/{quote(team.name or '-', safe='')}"
    return Call(method="PUT", path=path, read=lambda answer: value_of(TeamView, answer), **_json(body))


def ready() -> Call[dict[str, str]]:
    """The state of the service's components."""
    return Call(method="GET", path="/readyz", read=lambda answer: dict(answer.json()["components"]))


def _get(kind: type[_T], path: str, query: Mapping[str, Any] | None = None) -> Call[_T]:
    return Call(method="GET", path=path, query=query or {}, read=lambda answer: value_of(kind, answer))


def _list(kind: type[_T], path: str, query: Mapping[str, Any]) -> Call[list[_T]]:
    return Call(method="GET", path=path, query=query, read=lambda answer: values_of(kind, answer.json()))


def _page(kind: type[Any], path: str, query: Mapping[str, Any]) -> Call[Page]:
    return Call(method="GET", path=path, query=query, read=lambda answer: page_of(kind, answer))


def _text(path: str, query: Mapping[str, Any]) -> Call[str]:
    return Call(method="GET", path=path, query=query, read=lambda answer: answer.text)


def _json(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"content": json.dumps(body).encode(), "headers": {"Content-Type": "application/json"}}


def _space(path: str, source: str, file: str, headers: Mapping[str, str], kind: type[_T]) -> Call[_T]:
    return Call(
        method="POST",
        path=path,
        query={"file": file},
        content=source.encode(),
        headers={
            "Content-Type": "application/json" if file.endswith(".json") else "application/yaml",
            **headers,
        },
        read=lambda answer: value_of(kind, answer),
    )
