"""Health: whether the process lives, and whether it can do its work."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter

from autotune.api.context import Service
from autotune.api.problems import documented
from autotune.errors import Problem, UnreachableError

router = APIRouter(tags=["health"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Alive:
    """The process answers."""

    status: str
    version: str


WAITED_FOR = frozenset({"disk", "mlflow", "ray"})
"""Components that the service does without for a while: people see their jobs, and the jobs wait."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """Whether requests are answered.

    Attributes:
        status: ``ok``, or ``degraded`` while jobs wait for a component.
        components: Component -> ``ok``, or what is wrong with it.
    """

    status: str
    components: dict[str, str]


@router.get("/livez", operation_id="isAlive", responses=documented())
def livez() -> Alive:
    """Answers while the process lives; asks nothing else, so that a slow database never gets the process killed."""
    from autotune import __version__

    return Alive(status="ok", version=__version__)


@router.get("/readyz", operation_id="isReady", responses=documented(503))
def readyz(service: Service) -> Ready:
    """Answers 200 while requests can be answered, else 503 with what is wrong.

    A cluster, an MLflow or a disk that jobs wait for is told of and leaves the service ready.
    """
    components = dict(service.ready())
    problems = [Problem(path=name, message=state) for name, state in components.items() if state != "ok"]
    if any(problem.path not in WAITED_FOR for problem in problems):
        raise UnreachableError("not ready: " + "; ".join(str(problem) for problem in problems), problems=problems)
    return Ready(status="degraded" if problems else "ok", components=components)
