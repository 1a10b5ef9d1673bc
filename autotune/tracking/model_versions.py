"""Model versions in MLflow's registry: a trained model as artifacts of its trial's run, under a name people know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.errors import NotFoundError, UnreachableError
from autotune.tracking.mlflow_client import connect
from autotune.tracking.mlflow_tracker import JOB, PARENT, TRIAL

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.tracking import MlflowClient

FOLDER = "model"
STEP = "autotune.step"


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """A version of a registered model.

    Attributes:
        run: The trial's run, whose artifacts hold the files.
        source: Where MLflow finds them.
        created: Whether it is new; the same step of the same trial is registered once.
    """

    name: str
    version: str
    run: str
    source: str
    created: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """What is to be registered.

    Attributes:
        job: The name of the trial's study in MLflow.
        step: The training step of the checkpoint.
        files: A directory with the model's files.
        report: The job's report, kept with the job's own run.
    """

    job: str
    trial: int
    step: int
    files: Path
    report: Path | None
    tags: Mapping[str, str]
    description: str


def find_version(uri: str, experiment: str, name: str, job: str, trial: int, step: int) -> Version | None:
    """The version that holds this step of this trial already.

    Raises:
        UnreachableError: If MLflow does not answer.
        NotFoundError: If MLflow has no run of the trial.
    """
    client, experiment_id = connect(uri, experiment, None)
    run = _run(client, experiment_id, job, trial)
    for found in client.search_model_versions(f"run_id = '{run.info.run_id}'"):
        if found.name == name and found.tags.get(STEP) == str(step):
            return _version(found, created=False)
    return None


def log_version(uri: str, experiment: str, name: str, candidate: Candidate) -> Version:
    """Copies the files to the trial's run and registers them as the next version of the model.

    Args:
        uri: MLflow's tracking URI.
        experiment: Name of the experiment that all jobs share.
        name: Name of the registered model; made when it is missing.
        candidate: What is registered.

    Raises:
        UnreachableError: If MLflow does not answer or refuses.
        NotFoundError: If MLflow has no run of the trial.
    """
    from mlflow.exceptions import MlflowException

    client, experiment_id = connect(uri, experiment, None)
    run = _run(client, experiment_id, candidate.job, candidate.trial)
    run_id = run.info.run_id
    try:
        folder = f"{FOLDER}/step_{candidate.step}"
        client.log_artifacts(run_id, str(candidate.files), folder)
        parent = run.data.tags.get(PARENT)
        if candidate.report is not None and parent:
            client.log_artifact(parent, str(candidate.report))
        _ensure(client, name)
        made = client.create_model_version(
            name,
            source=f"{run.info.artifact_uri}/{folder}",
            run_id=run_id,
            tags={**candidate.tags, STEP: str(candidate.step)},
            description=candidate.description,
        )
    except MlflowException as error:
        raise UnreachableError(
            f"MLflow at {uri} did not take the model: {str(error).strip().splitlines()[0]}",
            hint="Check the name, and that MLflow may write its artifacts.",
        ) from error
    return _version(made, created=True)


def _run(client: MlflowClient, experiment: str, job: str, trial: int) -> Run:
    own = f"tags.`{JOB}` = '{job}' and tags.`{TRIAL}` = '{trial}' and tags.`autotune.kind` = 'trial'"
    found = client.search_runs([experiment], own, max_results=1)
    if not found:
        raise NotFoundError(
            f"MLflow has no run of trial {trial} of {job!r}.",
            hint="A service that runs brings MLflow up to date by itself; see its log for why it has not yet.",
        )
    return found[0]


def _ensure(client: MlflowClient, name: str) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def _version(found: ModelVersion, *, created: bool) -> Version:
    return Version(name=found.name, version=str(found.version), run=found.run_id, source=found.source, created=created)
