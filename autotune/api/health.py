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


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """Every component is ``ok``."""

    status: str
    components: dict[str, str]


@router.get("/livez", operation_id="isAlive", responses=documented())
def livez() -> Alive:
    """Answers while the process lives; asks nothing else, so that a slow database never gets the process killed."""
    from autotune import __version__

    return Alive(status="ok", version=__version__)


@router.get("/readyz", operation_id="isReady", responses=documented(503))
def readyz(service: Service) -> Ready:
    """Answers 200 when every component works, else 503 with what is wrong."""
    components = dict(service.ready())
    problems = [Problem(path=name, message=state) for name, state in components.items() if state != "ok"]
    if problems:
        raise UnreachableError("not ready: " + "; ".join(str(problem) for problem in problems), problems=problems)
    return Ready(status="ok", components=components)
