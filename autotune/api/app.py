"""The REST application: routes over the service's use cases, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from autotune import __version__
from autotune.api import health, jobs, login, metrics, results, tokens, web
from autotune.api.dashboard import Dashboard
from autotune.api.door import Door
from autotune.api.feed import Feed
from autotune.api.latency import Latency, MeasureLatency
from autotune.api.metrics import Exposition
from autotune.api.middleware import BodyLimit, RequestIdentity
from autotune.api.pace import Pace
from autotune.api.port import ServicePort
from autotune.api.problems import ProblemDetails, install_handlers
from autotune.settings import Settings

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]

_DESCRIPTION = """Hyperparameter search for the RL post-training of language models.

Errors are `application/problem+json` (RFC 9457) with a stable `code`, a `hint` with the fix, and the single
`problems`. Lists are paged: pass `next` as `cursor`. Times are seconds since the Unix epoch, durations seconds.
While no access token was ever given out, the service answers on loopback names only, and to everybody there. From the
first token on every request needs one: `Authorization: Bearer TOKEN`; browsers log in at `/login`. Viewers look,
operators submit jobs and act on those of their team, administrators act on all and give out tokens."""


def create_app(
    service: ServicePort,
    settings: Settings,
    *,
    dashboard_storage_url: str | None = None,
    lifespan: Lifespan | None = None,
    embedded: bool = False,
) -> FastAPI:
    """Builds the application.

    Args:
        service: The use cases.
        settings: The service's settings, kept at ``app.state.settings``.
        dashboard_storage_url: SQLAlchemy URL of the Optuna storage that ``/dashboard`` shows; ``None`` = none.
        lifespan: What runs as long as the server does, for example the supervisor.
        embedded: Whether only this very process asks, which owns the machine and needs no token.
    """
    app = FastAPI(
        title="autotune",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=lifespan,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        # FastAPI's own pages load their scripts from elsewhere; ours come from here (see ``web``).
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.state.settings = settings
    app.state.feed = Feed(service)
    latency = Latency()
    app.state.exposition = Exposition(service, latency)
    install_handlers(app)
    # The last one added is the outermost.
    app.add_middleware(BodyLimit)
    pace = Pace(settings.requests_per_s, settings.requests_at_once)
    app.add_middleware(Door, access=None if embedded else lambda: service.access, pace=pace)
    app.add_middleware(RequestIdentity)
    app.add_middleware(MeasureLatency, latency=latency)
    for router in (jobs.router, results.router, tokens.router, health.router, metrics.router, login.router, web.router):
        app.include_router(router)
    app.router.default = Dashboard(dashboard_storage_url, settings.artifacts_dir)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """FastAPI's document, with the error shape that no route returns as its model."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            license_info=app.license_info,
        )
        shape = TypeAdapter(ProblemDetails).json_schema(ref_template="#/components/schemas/{model}")
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas |= shape.pop("$defs", {})
        schemas["ProblemDetails"] = shape
        document["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "description": "An access token, once one was given out."}
        }
        # The second, empty way in: while no token was ever given out none is needed.
        document["security"] = [{"token": []}, {}]
        app.openapi_schema = document
    return app.openapi_schema
