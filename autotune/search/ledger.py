"""The trials of a study, their curves and their attempts: written through the book before anybody sees a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autotune.errors import StaleAttemptError
from autotune.search.book import Book
from autotune.search.curves import Curve
from autotune.search.population import Turn
from autotune.search.records import event
from autotune.search.roster import Roster
from autotune.search.types import Attempt, Event, Origin, Point, Trial
from autotune.spec.values import FlatConfig
from autotune.states import TrialState, check_trial_transition


class Ledger:
    """What a coordinator knows of its study.

    Args:
        book: Where the truth is kept; its history is what the ledger begins with.

    Attributes:
        trials: All trials by number.
        curves: Trial number -> curve, of the trials that have one.
    """

    def __init__(self, book: Book) -> None:
        history = book.load()
        self._book = book
        self.trials = Roster(history.trials)
        self.curves: dict[int, Curve] = {number: Curve(points) for number, points in history.curves.items()}
        self._cost_before: dict[int, float] = {}  # of the trial, when its present attempt started
        self._reported: dict[str, int] = {}  # token of an attempt -> the last step it reported
        self._live: set[str] = set()  # tokens of the attempts whose process may still be there
        self._ended: set[str] = set()  # tokens of the attempts whose end has been counted

    def curve(self, trial: Trial) -> Curve:
        """The trial's curve, empty before its first report."""
        return self.curves.get(trial.number, Curve())

    def current(self, attempt: Attempt) -> Trial:
        """The trial of an attempt that may still report.

        Raises:
            StaleAttemptError: If the trial has a newer attempt, or none with this token.
        """
        trial = self.trials.get(attempt.trial)
        if trial is None or trial.attempt is None or trial.attempt.token != attempt.token:
            present = "none" if trial is None or trial.attempt is None else f"attempt {trial.attempt.number}"
            raise StaleAttemptError(
                f"attempt {attempt.number} of trial {attempt.trial} is not the current one ({present}); "
                "its report is refused."
            )
        return trial

    # -- attempts --------------------------------------------------------------------------------------------------

    def begin(self, trial: Trial, attempt: Attempt) -> None:
        """An attempt of the trial has been launched."""
        self._cost_before[trial.number] = trial.cost_s
        self._live.add(attempt.token)

    def cost(self, trial: Trial, attempt_s: float) -> float:
        """Seconds of all the trial's attempts when the present one has taken ``attempt_s``."""
        return self._cost_before.get(trial.number, 0.0) + attempt_s

    def has_reported(self, attempt: Attempt, step: int) -> bool:
        """Whether the attempt has reported this step, or a later one, before."""
        return step <= self._reported.get(attempt.token, -1)

    def has_ended(self, attempt: Attempt) -> bool:
        """Whether the attempt's end has been counted."""
        return attempt.token in self._ended

    def end(self, attempt: Attempt) -> None:
        """No process of the attempt is left."""
        self._ended.add(attempt.token)
        self._live.discard(attempt.token)

    def occupied(self, trial: Trial) -> bool:
        """Whether a process of the trial may still be there."""
        return trial.attempt is not None and trial.attempt.token in self._live

    # -- changes ---------------------------------------------------------------------------------------------------

    def enter(self, source: str, params: FlatConfig, config: FlatConfig, now: float, text: str) -> Trial:
        """A new trial in the record, queued."""
        number, state = len(self.trials), TrialState.QUEUED
        trial = Trial(number=number, state=state, source=source, params=params, config=config, created_at=now)
        self.save(trial, [event(trial, now, "trial.state", text, state=state.value)])
        return trial

    def move(self, trial: Trial, state: TrialState, now: float, text: str, *, becomes: Trial | None = None) -> None:
        """Changes a trial's state.

        Args:
            trial: The trial as it is.
            state: The state to go to.
            now: Epoch seconds.
            text: What happened, in one sentence.
            becomes: The trial with whatever else changes.

        Raises:
            IllegalTransitionError: If the table of transitions does not allow it.
        """
        check_trial_transition(str(trial.number), trial.state, state)
        moved = replace(becomes or trial, state=state)
        self.save(moved, [event(moved, now, "trial.state", text, state=state.value)])

    def grow(self, trial: Trial, attempt: Attempt, curve: Curve, point: Point, events: Sequence[Event]) -> None:
        """A report: the trial as it is now, the curve with its new point, and what came of it."""
        self._book.save(trial, [point], events)
        self.trials.put(trial)
        self.curves[trial.number] = curve
        self._reported[attempt.token] = point.step

    def inherit(self, trial: Trial, origin: Origin, now: float) -> Trial:
        """The trial with the beginning of its curve, which an earlier one has trained already."""
        points = [replace(point, time=now) for point in origin.points if point.step <= origin.step]
        self._book.save(self.trials[trial.number], points)
        self.curves[trial.number] = Curve(points)
        self.trials.free(origin.step - trial.last_step)
        return replace(trial, last_step=origin.step)

    def turn(self, turn: Turn, now: float) -> None:
        """A member of a population as it goes on after a generation."""
        trial, before = turn.trial, self.trials[turn.trial.number]
        points = [replace(point, time=now) for point in turn.points]
        events = []
        if turn.exploit is not None:
            text, data = turn.exploit
            events = [event(trial, now, "trial.exploited", text, **data)]
        self._book.save(trial, points, events)
        self.curves[trial.number] = Curve([*self.curve(trial), *points])
        self.trials.put(trial)
        self.trials.free(trial.last_step - before.last_step)

    def save(self, trial: Trial, events: Sequence[Event]) -> None:
        """The trial as it is now."""
        self._book.save(trial, [], events)
        self.trials.put(trial)
