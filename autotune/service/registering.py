"""The best checkpoint of a job as a model version in MLflow, when somebody asks for it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.errors import ConflictError, UsageError
from autotune.service.observers import EXPERIMENT
from autotune.service.reporting import report_job
from autotune.service.spaces import resolve_document
from autotune.service.staging import shown
from autotune.tracking.model_versions import Candidate, find_version, log_version
from autotune.views import BestView, ModelVersionView

if TYPE_CHECKING:
    from autotune.service.service import Service

_LONGEST = 250


def register_best(service: Service, job_id: str, name: str | None) -> ModelVersionView:
    """Registers the best trial's checkpoint; the same one twice is one version.

    A model of the built-in trainer is written in Hugging Face format, adapters merged; of another backend the
    checkpoint's files are kept as they are.

    Args:
        service: Where everything is.
        job_id: The job.
        name: Name of the registered model; ``None`` = the job's name.

    Raises:
        NotFoundError: If there is no such job, no best trial, or MLflow does not know its run.
        ConflictError: If the checkpoint is not on this machine, or cannot be exported.
        UsageError: If the name cannot be used.
        UnreachableError: If MLflow does not answer.
    """
    best = service.best(job_id)
    with service.store.read() as work:
        job = work.jobs.get(job_id)
        study = shown(work.jobs.studies(job_id))
    model = name or job.name
    if not model.strip() or len(model) > _LONGEST or any(letter in model for letter in "/:\n"):
        raise UsageError(f"name: got {model!r}, allowed is up to {_LONGEST} characters without / and : .")
    checkpoint = Path(best.checkpoint) if best.checkpoint else None
    if checkpoint is None or not checkpoint.is_dir():
        raise ConflictError(
            f"trial {best.trial.number} of job {job_id!r} has no checkpoint on this machine.",
            hint="Train it again with what `autotune export` prints; trainer.save_freq keeps checkpoints.",
        )
    step, uri = int(checkpoint.name.removeprefix("step_")), service.settings.tracking_uri
    found = find_version(uri, EXPERIMENT, model, study.base_name, best.trial.number, step)
    if found is None:
        backend = resolve_document(job.document, job.file).parts[study.stage].space.trainer.backend
        with tempfile.TemporaryDirectory(prefix="autotune-model-") as scratch:
            files = _exported(checkpoint, step, Path(scratch) / "model") if backend == "native" else checkpoint
            candidate = Candidate(
                job=study.base_name,
                trial=best.trial.number,
                step=step,
                files=files,
                report=report_job(service, job_id),
                tags={"autotune.job": job_id, "autotune.trial": str(best.trial.number), "autotune.backend": backend},
                description=_description(best),
            )
            found = log_version(uri, EXPERIMENT, model, candidate)
    return ModelVersionView(
        job=job_id,
        trial=best.trial.number,
        step=step,
        name=found.name,
        version=found.version,
        run=found.run,
        source=found.source,
        created=found.created,
    )


def _exported(checkpoint: Path, step: int, out: Path) -> Path:
    """The actor in Hugging Face format, written by a process of its own: torch stays out of the service."""
    run_dir = checkpoint.parent.parent
    command = [sys.executable, "-m", "trainer.models.export", str(run_dir), "--out", str(out), "--step", str(step)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=run_dir)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ConflictError(
            f"the checkpoint {checkpoint} cannot be exported: {said}",
            hint=f"Try it by hand: python -m trainer.models.export {run_dir} --out DIR --step {step}",
        )
    return out


def _description(best: BestView) -> str:
    reached = "" if best.trial.value is None else f", {best.objective.metric} {best.trial.value:.4g}"
    return f"Trial {best.trial.number} of job {best.job}{reached}. Train it again: {best.command}"[:5000]
