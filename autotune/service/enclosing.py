"""Puts a job's report and its best configuration where its mirrors show files: beside Optuna's study, and in MLflow."""

from __future__ import annotations

import json
import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from autotune.errors import AutotuneError, InvalidConfigError, UnreachableError, UsageError
from autotune.search.ranking import best_of
from autotune.service.exporting import export_view
from autotune.service.observers import EXPERIMENT
from autotune.service.reporting import report_job
from autotune.service.spaces import ResolvedSpace, resolve_document
from autotune.service.staging import winner_of

if TYPE_CHECKING:
    from autotune.service.service import Service
    from autotune.store.values import Study

logger = logging.getLogger(__name__)

BEST = "best_config.yaml"
SPACE = "space.yaml"
CONFIG = "config.json"


def enclose(service: Service, job_id: str) -> None:
    """Encloses the files of a job that has ended with each of its studies. The same twice changes nothing.

    Optuna Dashboard gets the report and the best configuration; MLflow the space and the default configuration, as
    they were resolved, too.

    Raises:
        AutotuneError: If a mirror does not answer, or the files cannot be written.
    """
    from autotune.store.optuna_artifacts import attach
    from autotune.tracking.runs import log_files

    settings = service.settings
    with service.store.read() as work:
        job = work.jobs.get(job_id)
        studies = [study for study in work.jobs.studies(job_id) if study.started_at is not None]
    parts = resolve_document(job.document, job.file).parts
    try:
        report = report_job(service, job_id)
        for study in studies:
            part = parts[study.stage]
            with tempfile.TemporaryDirectory(prefix="autotune-files-") as scratch:
                found = [report, *_best(service, part, study, Path(scratch))]
                attach(settings.study_database, study.name, settings.artifacts_dir, found)
                found += _resolved(service, job_id, part, Path(scratch))
                places = settings.root / "mlflow-artifacts"
                log_files(settings.tracking_uri, EXPERIMENT, study.base_name, found, places)
    except AutotuneError:
        raise
    except Exception as error:
        raise UnreachableError(f"the files of {job_id} cannot be enclosed ({error}).") from error


def enclose_or_later(service: Service, job_id: str) -> None:
    """Like ``enclose``; where a mirror does not answer the service sees to it later, as to all that they lack."""
    try:
        enclose(service, job_id)
    except AutotuneError as error:
        logger.warning("the files of %s are enclosed later: %s", job_id, error.message)
        with service.store.begin() as work:
            work.jobs.mark_mirrored(job_id, None)


def _best(service: Service, part: ResolvedSpace, study: Study, folder: Path) -> list[Path]:
    """The best configuration of a study, where it has one that can be written."""
    with service.store.read() as work:
        trials = [record.trial for record in work.trials.list(study.job, study.stage)]
    number = winner_of(study)
    if number is None:
        best = best_of(trials, part.space.objective)
        number = None if best is None else best.number
    if number is None:
        return []
    try:
        text = export_view(service.store, study.job, "yaml", number, study.title or None).text
    except (UsageError, InvalidConfigError):
        return []
    return [_written(folder / BEST, text)]


def _resolved(service: Service, job_id: str, part: ResolvedSpace, folder: Path) -> list[Path]:
    space = yaml.safe_dump(dict(service.document(job_id)), sort_keys=False, allow_unicode=True)
    return [_written(folder / SPACE, space), _written(folder / CONFIG, json.dumps(dict(part.base), indent=1))]


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
