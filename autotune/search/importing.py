"""Reads the best configurations out of a study that Optuna keeps somewhere."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote

import optuna
from optuna.storages import RDBStorage
from optuna.study import StudyDirection

from autotune.errors import NotFoundError, UsageError
from autotune.spec.nearest import did_you_mean
from autotune.spec.values import FlatConfig

_PREFIX = "sqlite:///"


def best_of_study(address: str, study: str, top: int) -> list[FlatConfig]:
    """The parameters of the best completed trials, best first, under the names that the study has.

    The database is only read.

    Args:
        address: ``sqlite:///relative/or//absolute/file.db``.
        study: The study's name; empty where there is only one.
        top: At most so many.

    Raises:
        NotFoundError: If there is no such file or study, or nothing completed in it.
        UsageError: If the address is of another kind, the file is no database of Optuna's, or the study has several
            objectives.
    """
    if not address.startswith(_PREFIX):
        raise UsageError(
            f"optuna: got {address!r}, allowed is an SQLite file such as sqlite:///old.db.",
            hint="Copy the study into a file with: optuna.copy_study(...)",
        )
    path = Path(address.removeprefix(_PREFIX)).expanduser().absolute()
    if not path.is_file():
        raise NotFoundError(
            f"there is no file {path}.", hint="An absolute path has four slashes: sqlite:////data/old.db"
        )
    try:
        storage = RDBStorage(
            f"sqlite:///file:{quote(str(path))}?mode=ro&uri=true",
            skip_compatibility_check=True,
            skip_table_creation=True,
        )
        names = sorted(one.study_name for one in storage.get_all_studies())
        name = study or (names[0] if len(names) == 1 else "")
        if name not in names:
            asked = f"no study {study!r}" if study else "more than one study"
            raise NotFoundError(
                f"{path} holds {asked if names else 'no study'}; it has: {', '.join(names) or 'none'}.",
                hint=did_you_mean(study, names) if study else "Name one with study: NAME",
            )
        loaded = optuna.load_study(study_name=name, storage=storage)
        trials = loaded.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
        several = len(loaded.directions) > 1
    except (sqlite3.Error, optuna.exceptions.StorageInternalError, RuntimeError) as error:
        raise UsageError(
            f"{path} is no database of Optuna's: {error}", hint="Give the file of an Optuna study."
        ) from error
    if several:
        raise UsageError(f"the study {name!r} has several objectives, so it has no best trials.")
    if not trials:
        raise NotFoundError(f"not one trial of the study {name!r} is complete.")
    sign = -1 if loaded.direction is StudyDirection.MAXIMIZE else 1
    ordered = sorted(trials, key=lambda trial: (sign * (trial.value or 0.0), trial.number))
    return [dict(trial.params) for trial in ordered[:top]]
