"""Files beside an Optuna study, which Optuna Dashboard offers to download."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path

import optuna
from optuna.artifacts import FileSystemArtifactStore, upload_artifact
from optuna.artifacts.exceptions import ArtifactNotFound

from autotune.store.optuna_storage import open_storage

_PREFIX = "artifacts:"
"""Optuna's, of the study's attributes that say which files there are."""


def open_files(folder: Path) -> FileSystemArtifactStore:
    """Where the files lie; also what Optuna Dashboard is given. Creates the directory where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    return FileSystemArtifactStore(folder)


def attach(url: str, study_name: str, folder: Path, files: Iterable[Path]) -> None:
    """Puts files beside a study. One of a name that is there already is written again where it changed.

    A study that was never opened gets none.

    Args:
        url: The study database.
        study_name: The study's name in Optuna.
        folder: Where the files are kept.
        files: The files, each called as it is there.

    Raises:
        ConflictError, NotAllowedError, UnreachableError: As ``open_storage`` raises them.
        OSError: If a file cannot be read or written.
    """
    kept = open_files(folder)
    storage = open_storage(url)
    try:
        study = optuna.load_study(study_name=study_name, storage=storage)
        present = names(storage.get_study_system_attrs(study._study_id))
        for path in files:
            if path.name not in present:
                upload_artifact(artifact_store=kept, file_path=str(path), study_or_trial=study)
            elif (content := path.read_bytes()) != _read(kept, present[path.name]):
                kept.write(present[path.name], BytesIO(content))
    except KeyError:
        return
    finally:
        storage.remove_session()
        storage.engine.dispose()


def names(attributes: Mapping[str, object]) -> dict[str, str]:
    """Name -> Optuna's id of each file, from the study's system attributes; a deleted one is none."""
    entries = [json.loads(str(value)) for key, value in attributes.items() if key.startswith(_PREFIX)]
    return {entry["filename"]: entry["artifact_id"] for entry in entries if entry is not None}


def _read(kept: FileSystemArtifactStore, identifier: str) -> bytes | None:
    try:
        with kept.open_reader(identifier) as file:
            return file.read()
    except ArtifactNotFound:  # noted before it was written, by somebody who died in between
        return None
