"""Compares Optuna's study with the trials that it mirrors; changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from optuna.storages import RDBStorage

from autotune.search.types import Trial
from autotune.store import optuna_values


def differences(storage: RDBStorage, study_name: str, trials: Sequence[Trial]) -> Iterator[str]:
    """What Optuna's study has otherwise, a sentence each; nothing where both say the same.

    Args:
        storage: As ``open_storage`` opens it.
        study_name: The study's name.
        trials: The truth.
    """
    try:
        study = storage.get_study_id_from_name(study_name)
    except KeyError:
        if trials:
            yield f"Optuna has no study {study_name!r}"
        return
    mirrored = {trial.number: trial for trial in storage.get_all_trials(study, deepcopy=False)}
    for trial in trials:
        found = mirrored.pop(trial.number, None)
        wanted = optuna_values.state(trial)
        if found is None:
            yield f"Optuna's study {study_name!r} has no trial {trial.number}"
        elif found.state is not wanted:
            yield (
                f"trial {trial.number} is {trial.state}, in Optuna's study {study_name!r} it is "
                f"{found.state.name.lower()} instead of {wanted.name.lower()}"
            )
        elif wanted.name == "COMPLETE" and trial.value is not None and trial.value not in (found.values or ()):
            yield f"trial {trial.number} has the value {trial.value:g}, in Optuna's study {found.values}"
    for number in sorted(number for number, found in mirrored.items() if not found.state.is_finished()):
        yield f"Optuna's study {study_name!r} has a trial {number} that nobody else knows"
