"""Which queued job comes next where several teams share the machines: priority, then fair share, within the quotas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from autotune.store.database import UnitOfWork
from autotune.store.values import Job, Team
from autotune.views import JsonObject

_NO_TEAM = Team(name="")


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """What a team uses.

    Attributes:
        gpus: GPUs that its jobs at work hold at most at a time.
        gpu_hours: What its trials have cost in this calendar month.
    """

    gpus: float = 0.0
    gpu_hours: float = 0.0


def in_turn(queued: Sequence[Job], used: Mapping[str, Use], teams: Mapping[str, Team]) -> list[Job]:
    """The jobs that may start now, best first.

    A higher priority goes first. Among equals goes the team that uses the fewest GPUs for its share, then the older
    job. A team without a quota has no limit and the share 1.

    Args:
        queued: Jobs that wait.
        used: Team -> what it uses now.
        teams: Team -> what it may use.
    """

    def turn(job: Job) -> tuple[float, float, float, str]:
        use = used.get(job.team, Use())
        return (-job.priority, use.gpus / teams.get(job.team, _NO_TEAM).share, job.created_at, job.id)

    return sorted((job for job in queued if why_not(job, used, teams) is None), key=turn)


def why_not(job: Job, used: Mapping[str, Use], teams: Mapping[str, Team]) -> str | None:
    """Why a job must wait for its team's quota, in words; ``None`` when it need not."""
    team, use, need = teams.get(job.team, _NO_TEAM), used.get(job.team, Use()), gpus_of(job.document)
    if need > 0 and team.parallel_gpus is not None and use.gpus + need > team.parallel_gpus:
        return (
            f"team {job.team!r} may hold {team.parallel_gpus:g} GPUs at a time; it holds {use.gpus:g}, and this job "
            f"needs {need:g}"
        )
    if need > 0 and team.gpu_hours_a_month is not None and use.gpu_hours >= team.gpu_hours_a_month:
        return f"team {job.team!r} has used {use.gpu_hours:.3g} of its {team.gpu_hours_a_month:g} GPU-hours this month"
    return None


def use_of_teams(work: UnitOfWork, now: float) -> dict[str, Use]:
    """What each team uses now."""
    documents: dict[str, JsonObject] = {}

    def gpus(job_id: str) -> float:
        if job_id not in documents:
            documents[job_id] = work.jobs.get(job_id).document
        return _number(documents[job_id].get("resources"), "gpus", 0.0)

    month = datetime.fromtimestamp(now, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()
    hours = {
        team: sum(seconds * gpus(job) for job, seconds in of.items()) / 3600
        for team, of in work.access.used_seconds(month).items()
    }
    held: dict[str, float] = {}
    for job_id in work.access.at_work():
        job = work.jobs.get(job_id)
        held[job.team] = held.get(job.team, 0.0) + gpus_of(job.document)
    return {team: Use(gpus=held.get(team, 0.0), gpu_hours=hours.get(team, 0.0)) for team in {*hours, *held}}


def gpus_of(document: JsonObject) -> float:
    """GPUs that a job holds at most at a time, in whichever of its stages."""
    stages = document.get("stages")
    budgets = [stage.get("budget") for stage in stages] if isinstance(stages, list) else [document.get("budget")]
    parallel = max((_number(budget, "parallel", 1.0) for budget in budgets), default=1.0)
    return _number(document.get("resources"), "gpus", 0.0) * parallel


def _number(section: object, key: str, default: float) -> float:
    value = section.get(key, default) if isinstance(section, Mapping) else default
    return float(value) if isinstance(value, int | float) else default
