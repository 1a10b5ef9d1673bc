"""The way into MLflow: quiet, without telemetry, and safe when several processes come for the first time at once."""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.errors import NotAllowedError, UnreachableError

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

_SQLITE = "sqlite:///"
_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}


def connect(uri: str, experiment: str, artifacts: Path | None) -> tuple[MlflowClient, str]:
    """Opens MLflow and its experiment, creating the database and the experiment where they are missing.

    Args:
        uri: Tracking URI: ``sqlite:////absolute/file.db`` or the address of a server.
        experiment: The experiment's name; one that was deleted is restored.
        artifacts: Where a new experiment on a local database keeps its artifacts, ``None`` = ``mlflow-artifacts``
            beside the database; a server decides by itself.

    Returns:
        The client and the experiment's id.

    Raises:
        UnreachableError: If MLflow does not answer or its database is of another version.
        NotAllowedError: If the local database may not be written.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    # The import takes seconds, hence here and not above; it also reads the variables.
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    for logger in ("mlflow", "alembic"):
        logging.getLogger(logger).setLevel(logging.WARNING)
    local = uri.startswith(_SQLITE)
    database = Path(uri.removeprefix(_SQLITE)).absolute() if local else None
    location = None
    if database is not None:  # without one MLflow would write below the current directory
        location = (artifacts or database.with_name("mlflow-artifacts")).absolute().as_uri()
    try:
        with _first_time(database):
            client = MlflowClient(tracking_uri=uri)
            return client, _experiment(client, experiment, location)
    except MlflowException as error:
        said = str(error).strip().splitlines()[0]
        raise UnreachableError(
            f"MLflow at {uri} cannot be used ({said}).",
            hint="Check AUTOTUNE_MLFLOW_URI; after an upgrade of MLflow run: mlflow db upgrade URI",
        ) from error


def _experiment(client: MlflowClient, name: str, location: str | None) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return str(client.create_experiment(name, artifact_location=location))
        except MlflowException as error:
            # On a server another driver may have been faster.
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            found = client.get_experiment_by_name(name)
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


@contextmanager
def _first_time(database: Path | None) -> Iterator[None]:
    # MLflow migrates an empty database without any lock; two first starts at once would break it.
    if database is None:
        yield
        return
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
        with database.with_name(f"{database.name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with sqlite3.connect(database, timeout=30) as connection:
                connection.execute("PRAGMA journal_mode=WAL")  # kept in the file; readers then never block a driver
            connection.close()
            yield
    except (OSError, sqlite3.DatabaseError) as error:
        raise NotAllowedError(
            f"the MLflow database {database} cannot be opened for writing: {error}.",
            hint="Give yourself write access, or choose another place with AUTOTUNE_HOME or AUTOTUNE_MLFLOW_URI.",
        ) from error
