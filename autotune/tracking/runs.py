"""Which runs of a job's trials MLflow has, and the files beside the job's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from autotune.tracking.mlflow_client import connect
from autotune.tracking.mlflow_tracker import JOB, TRIAL

_PAGE = 1000


def trial_runs(uri: str, experiment: str, job: str, artifacts: Path | None = None) -> Counter[int]:
    """Trial's number -> how many runs MLflow has of it.

    Args:
        uri: MLflow's tracking URI.
        experiment: Name of the experiment that all jobs share.
        job: The job's name in MLflow.
        artifacts: Where artifacts of a local experiment are kept.

    Raises:
        UnreachableError: If MLflow does not answer.
        NotAllowedError: If its local database may not be opened.
    """
    client, experiment_id = connect(uri, experiment, artifacts)
    found: Counter[int] = Counter()
    token: str | None = None
    while True:
        own = f"tags.`{JOB}` = '{job}' and tags.`autotune.kind` = 'trial'"
        page = client.search_runs([experiment_id], own, max_results=_PAGE, page_token=token)
        found.update(int(run.data.tags[TRIAL]) for run in page if run.data.tags.get(TRIAL, "").isdecimal())
        token = page.token
        if not token:
            return found


def log_files(uri: str, experiment: str, job: str, files: Iterable[Path], artifacts: Path | None = None) -> None:
    """Puts files beside a job's own run, each under its name; a later one of the same name replaces it.

    A job without a run gets none.

    Args:
        uri: MLflow's tracking URI.
        experiment: Name of the experiment that all jobs share.
        job: The job's name in MLflow.
        files: The files.
        artifacts: Where artifacts of a local experiment are kept.

    Raises:
        UnreachableError: If MLflow does not answer.
        NotAllowedError: If its local database may not be opened.
    """
    client, experiment_id = connect(uri, experiment, artifacts)
    own = f"tags.`{JOB}` = '{job}' and tags.`autotune.kind` = 'job'"
    for run in client.search_runs([experiment_id], own, max_results=1, order_by=["attributes.start_time ASC"]):
        for file in files:
            client.log_artifact(run.info.run_id, str(file))
