"""The observers of a job: Optuna's study in the same database, and MLflow."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from autotune import __version__
from autotune.service.publishing import Observer
from autotune.service.service import Service
from autotune.service.spaces import ResolvedSpace
from autotune.store.values import Job, Study

if TYPE_CHECKING:
    from autotune.tracking import MlflowTracker

EXPERIMENT = "autotune"


@cache
def git_commit() -> str:
    """The commit of the checkout that this code runs from; empty for an installed package."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return ""
    try:
        command = ["git", "-C", str(root), "rev-parse", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def observers_for(
    service: Service, job: Job, resolved: ResolvedSpace, study: Study
) -> dict[str, Callable[[], Observer]]:
    """Name -> factory of each observer of a job; a factory may take seconds and is called on the observers' thread.

    Args:
        service: Where the databases are.
        job: The job.
        resolved: Its space.
        study: The study, which gives Optuna's study and the parent run in MLflow their names.
    """
    settings, space = service.settings, resolved.space

    trackers: list[MlflowTracker] = []

    def link(number: int | None) -> str | None:
        found = trackers[-1].page(number) if trackers else None
        return None if found is None else f"{settings.mlflow_pages}/{found}"

    def mirror() -> Observer:
        from autotune.store.optuna_mirror import OptunaMirror

        return OptunaMirror(
            settings.study_database,
            study.name,
            objective=space.objective,
            parameters=space.search,
            steps=resolved.steps,
            user_attrs={"job": job.id, "space": space.name, "description": space.description},
            gpus=space.resources.gpus,
            link=link,
        )

    def tracker() -> Observer:
        from autotune.tracking import MlflowTracker

        tracker = MlflowTracker(
            settings.tracking_uri,
            EXPERIMENT,
            study.base_name,
            objective=space.objective,
            artifacts=settings.root / "mlflow-artifacts",
            tags={
                "backend": space.trainer.backend,
                "config": space.trainer.config,
                "sampler": space.sampler.name,
                "seed": str(space.sampler.seed),
                "space": space.name,
                "version": __version__,
                **({"stage": study.title} if study.title else {}),
                **({"git_commit": commit} if (commit := git_commit()) else {}),
            },
            description=space.description,
            clock=service.clock,
        )
        run = tracker.start()
        with service.store.begin() as work:
            work.jobs.set_places(job.id, mlflow_run=run)
        trackers[:] = [tracker]
        return tracker

    # MLflow first: Optuna's study links to its runs.
    return {"MLflow": tracker, "Optuna's study": mirror}
