"""Keeps an Optuna study truthful, so that Optuna's tools and its dashboard can read what we did.

The mirror follows the SQL truth and decides nothing. It may be behind or half-written after a crash; ``reconcile``
brings it up to date. The numbers of its trials are ours.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, create_trial
from optuna.trial import TrialState as OptunaState

from autotune.errors import ConflictError
from autotune.search.book import History
from autotune.search.types import Point, Trial
from autotune.spec.types import Objective, Parameter
from autotune.spec.values import JsonValue
from autotune.states import JobState
from autotune.store import clean, optuna_values
from autotune.store.optuna_storage import amend, moment, open_storage

MAX_POINTS = 200
"""Intermediate values of a trial that are mirrored: Optuna reads all of them each time it reads a study."""

_NOTE_VERSION = "dashboard:note_ver"
"""What Optuna Dashboard keeps beside a note."""


@dataclass(kw_only=True, slots=True)
class _Mirrored:
    """What we know of a trial in Optuna's study."""

    id: int
    state: OptunaState
    params: frozenset[str]
    attrs: dict[str, JsonValue]
    values: dict[int, float]
    """Intermediate values that are there."""
    outcome: tuple[float, ...] | None
    """The objectives that it ended with."""
    ended: float | None
    pending: tuple[int, float] | None = None
    """The newest value, when it was thinned out; it is written after all if the trial ends here."""
    done: Trial | None = None
    """The ended trial that is mirrored completely."""


class OptunaMirror:
    """An observer that keeps an Optuna study in the study database.

    Args:
        url: The study database, as for ``Store``.
        study_name: ``Study.name``.
        objective: Metric and direction of the study, or of several objectives each one's.
        parameters: The searched parameters by path.
        steps: Training steps of a full trial; decides how intermediate values are thinned.
        user_attrs: Attributes of the study (job, space, ...); ``description`` is its note as well, until a person
            writes another one.
        gpus: GPUs of a trial.
        link: Where MLflow shows a trial, for ``None`` the whole job; it may not know yet.

    Raises:
        ConflictError: If the study exists with another direction.
        NotAllowedError, UnreachableError: As ``Store`` raises them.
    """

    def __init__(
        self,
        url: str,
        study_name: str,
        *,
        objective: Objective,
        parameters: Mapping[str, Parameter],
        steps: int,
        user_attrs: Mapping[str, JsonValue] | None = None,
        gpus: float = 0.0,
        link: Callable[[int | None], str | None] | None = None,
    ) -> None:
        self._storage = open_storage(url)
        self._name = study_name
        self._objective = objective
        self._parameters = parameters
        self._stride = max(1, math.ceil(steps / MAX_POINTS))
        self._user_attrs = dict(user_attrs or {})
        self._gpus, self._link = gpus, link or (lambda _: None)
        self._study = self._open_study()
        self._mirrored = self._read()

    def on_save(self, trial: Trial, points: Sequence[Point] = ()) -> None:
        """Follows a save. Repeating one changes nothing."""
        mirrored = self._ensure(trial)
        if trial == mirrored.done:
            return
        goal = optuna_values.state(trial)
        if mirrored.state.is_finished():
            # It goes on after all (a resumed job), or the mirror had another end in mind.
            reopened = OptunaState.RUNNING if goal.is_finished() else goal
            amend(self._storage, mirrored.id, started=trial.started_at, ended=None, reopen=reopened)
            mirrored.state, mirrored.done = reopened, None
        self._write_points(mirrored, points)
        self._write_attributes(mirrored, trial)
        if goal.is_finished():
            self._finish(mirrored, trial, goal)
        elif goal is not mirrored.state:
            self._storage.set_trial_state_values(mirrored.id, goal)
            amend(self._storage, mirrored.id, started=trial.started_at, ended=None)
            mirrored.state = goal

    def reconcile(self, history: History) -> None:
        """Repairs a mirror that is behind, half-written or ahead of the truth.

        Trials that the truth does not know are ended as failed; all others come out as ``history`` has them.
        """
        self._study = self._open_study()
        self._mirrored = self._read()
        known = {trial.number for trial in history.trials}
        for number, stranger in self._mirrored.items():
            if number not in known and not stranger.state.is_finished():
                self._storage.set_trial_user_attr(stranger.id, "error", "not in the record of the study")
                self._storage.set_trial_state_values(stranger.id, OptunaState.FAIL)
                stranger.state = OptunaState.FAIL
        for trial in sorted(history.trials, key=lambda trial: trial.number):
            curve = history.curves.get(trial.number, ())
            if not self._is_complete(trial):
                self.on_save(trial, curve)

    def close(self, best: Trial | None = None, state: JobState = JobState.COMPLETED) -> None:
        """Notes the winner and the job's state on the study and closes the connections."""
        self._storage.set_study_user_attr(self._study, "state", str(state))
        if (place := self._link(None)) is not None:
            self._storage.set_study_user_attr(self._study, "mlflow", place)
        if best is not None:
            self._storage.set_study_user_attr(self._study, "best_trial", best.number)
        self._storage.remove_session()
        self._storage.engine.dispose()

    def _open_study(self) -> int:
        goals = self._objective.each
        study = optuna.create_study(
            storage=self._storage,
            study_name=self._name,
            directions=[StudyDirection[goal.direction.name] for goal in goals],
            load_if_exists=True,
        )
        present = [direction.name.lower() for direction in study.directions]
        if present != [str(goal.direction) for goal in goals]:
            raise ConflictError(
                f"the Optuna study {self._name!r} exists and would {' and '.join(present)}, "
                f"the objective says {' and '.join(goal.direction for goal in goals)}.",
                hint="Delete the study with: optuna delete-study, or use another database.",
            )
        names = [goal.metric for goal in goals]
        if study.metric_names != names:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "experimental" since 3.2; the dashboard reads it
                study.set_metric_names(names)
        noted = study.user_attrs
        present_attrs = self._storage.get_study_system_attrs(study._study_id)
        note = self._user_attrs.get("description")
        if isinstance(note, str) and note.strip() and _NOTE_VERSION not in present_attrs:
            from optuna_dashboard import save_note  # takes a while, once for each study

            save_note(study, note)
        for key, value in self._user_attrs.items():
            if noted.get(key) != value:
                study.set_user_attr(key, value)
        return self._storage.get_study_id_from_name(self._name)

    def _read(self) -> dict[int, _Mirrored]:
        found = self._storage.get_all_trials(self._study, deepcopy=False)
        return {frozen.number: _recall(frozen) for frozen in found}

    def _ensure(self, trial: Trial) -> _Mirrored:
        # Optuna numbers by counting, so trials that were missed get an empty place that a later save fills.
        for number in range(len(self._mirrored), trial.number):
            self._mirrored[number] = self._create(number, create_trial(state=OptunaState.WAITING))
        params, distributions = optuna_values.suggestions(self._parameters, trial.params)
        mirrored = self._mirrored.get(trial.number)
        if mirrored is None:
            goal = OptunaState.WAITING if optuna_values.state(trial) is OptunaState.WAITING else OptunaState.RUNNING
            template = create_trial(
                state=goal,
                params=params,
                distributions=distributions,
                user_attrs=self._attributes(trial),
            )
            template.datetime_start = moment(trial.started_at)
            mirrored = self._mirrored[trial.number] = self._create(trial.number, template)
        elif not mirrored.state.is_finished():
            for path in [path for path in params if path not in mirrored.params]:
                internal = distributions[path].to_internal_repr(params[path])
                self._storage.set_trial_param(mirrored.id, path, internal, distributions[path])
            mirrored.params |= params.keys()
        return mirrored

    def _create(self, number: int, template: FrozenTrial) -> _Mirrored:
        identifier = self._storage.create_new_trial(self._study, template)
        given = self._storage.get_trial_number_from_id(identifier)
        if given != number:
            raise ConflictError(
                f"the Optuna study {self._name!r} numbered trial {number} as {given}: somebody else adds trials to it.",
                hint="Leave the study to autotune; delete it (optuna delete-study) and resume the job to rebuild it.",
            )
        return _Mirrored(
            id=identifier,
            state=template.state,
            params=frozenset(template.params),
            attrs=dict(template.user_attrs),
            values={},
            outcome=None,
            ended=None,
        )

    def _write_points(self, mirrored: _Mirrored, points: Sequence[Point]) -> None:
        if self._objective.also:
            return  # with several objectives Optuna has no intermediate values
        for point in points:
            if self._objective.metric not in point.metrics:
                continue
            measured = clean.number(point.metrics[self._objective.metric])
            value = math.nan if measured is None else measured
            last = max(mirrored.values, default=None)
            if point.step in mirrored.values or last is None or point.step >= last + self._stride:
                self._write_value(mirrored, point.step, value)
                mirrored.pending = None
            else:
                mirrored.pending = (point.step, value)

    def _write_value(self, mirrored: _Mirrored, step: int, value: float) -> None:
        present = mirrored.values.get(step)
        if present is None or not (present == value or (math.isnan(present) and math.isnan(value))):
            self._storage.set_trial_intermediate_value(mirrored.id, step, value)
            mirrored.values[step] = value

    def _write_attributes(self, mirrored: _Mirrored, trial: Trial) -> None:
        for key, value in self._attributes(trial).items():
            if mirrored.attrs.get(key) != value:
                self._storage.set_trial_user_attr(mirrored.id, key, value)
                mirrored.attrs[key] = value

    def _attributes(self, trial: Trial) -> dict[str, JsonValue]:
        found = optuna_values.attributes(trial, self._gpus)
        place = self._link(trial.number)
        return found if place is None else {**found, "mlflow": place}

    def _finish(self, mirrored: _Mirrored, trial: Trial, goal: OptunaState) -> None:
        if mirrored.pending is not None:
            self._write_value(mirrored, *mirrored.pending)
        violations = optuna_values.constraints(trial)
        for text, violation in violations.items():
            self._storage.set_trial_system_attr(mirrored.id, f"constraints:{text}", violation)
        if violations:
            # The form of before Optuna 5, which is the one that Optuna Dashboard 0.21 shows.
            self._storage.set_trial_system_attr(mirrored.id, "constraints", list(violations.values()))
        outcome = self._outcome(mirrored, trial, goal)
        # The state comes last: a mirrored trial that has ended is complete.
        self._storage.set_trial_state_values(mirrored.id, goal, outcome)
        amend(self._storage, mirrored.id, started=trial.started_at, ended=trial.ended_at)
        mirrored.state, mirrored.outcome, mirrored.ended, mirrored.done = goal, outcome, trial.ended_at, trial

    def _outcome(self, mirrored: _Mirrored, trial: Trial, goal: OptunaState) -> tuple[float, ...] | None:
        """The objectives that a trial ends with in Optuna's study."""
        if goal is OptunaState.FAIL:
            return None
        if self._objective.also:
            found = [clean.number(trial.values.get(one.metric)) for one in self._objective.each]
            known = tuple(value for value in found if value is not None)
            return known if len(known) == len(found) else None
        value = clean.number(trial.value)
        if value is None and mirrored.values:  # as Optuna does for a pruned trial: its last value so far
            value = clean.number(mirrored.values[max(mirrored.values)])
        return None if value is None else (value,)

    def _is_complete(self, trial: Trial) -> bool:
        mirrored = self._mirrored.get(trial.number)
        if mirrored is None or not mirrored.state.is_finished():
            return False
        goal = optuna_values.state(trial)
        return (
            mirrored.state is goal
            and mirrored.outcome == self._outcome(mirrored, trial, goal)
            and {**mirrored.attrs, **self._attributes(trial)} == mirrored.attrs
            and (trial.ended_at is None or abs((mirrored.ended or 0.0) - trial.ended_at) < 1.0)
        )


def _recall(frozen: FrozenTrial) -> _Mirrored:
    return _Mirrored(
        id=frozen._trial_id,
        state=frozen.state,
        params=frozenset(frozen.params),
        attrs=dict(frozen.user_attrs),
        values=dict(frozen.intermediate_values),
        outcome=None if frozen.values is None else tuple(frozen.values),
        ended=None if frozen.datetime_complete is None else frozen.datetime_complete.timestamp(),
    )
