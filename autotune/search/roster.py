"""All trials of a study by number, with those in a state, and the sums, at hand without looking at the others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar, cast

from autotune.search.types import Trial
from autotune.states import TrialState

T = TypeVar("T")


class Roster(Mapping[int, Trial]):
    """Trials by number.

    Args:
        trials: The trials to begin with.

    Attributes:
        cost_s: Seconds of all trials together.
        steps: The steps that all trials have paid for, together.
        dearest_step_s: What a step of the dearest completed trial has cost, in seconds; 0 before the first one.
        changes: The number of each trial that came, or changed in anything but its cost, in order; it only grows.
    """

    def __init__(self, trials: Iterable[Trial] = ()) -> None:
        self._trials: dict[int, Trial] = {}
        self._states: dict[TrialState, set[int]] = {state: set() for state in TrialState}
        self.cost_s = 0.0
        self.steps = 0
        self.dearest_step_s = 0.0
        self.changes: list[int] = []
        self._kept: dict[Hashable, object] = {}
        for trial in trials:
            self.put(trial)

    def __getitem__(self, number: int) -> Trial:
        return self._trials[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._trials)

    def __len__(self) -> int:
        return len(self._trials)

    def put(self, trial: Trial) -> None:
        """Takes a trial in, or replaces it."""
        before = self._trials.get(trial.number)
        if before is not None:
            self._states[before.state].discard(trial.number)
        self.cost_s += trial.cost_s - (before.cost_s if before else 0.0)
        self.steps += trial.last_step - (before.last_step if before else 0)
        self._trials[trial.number] = trial
        self._states[trial.state].add(trial.number)
        if trial.state is TrialState.COMPLETED and trial.last_step:
            self.dearest_step_s = max(self.dearest_step_s, trial.cost_s / trial.last_step)
        same = before is not None and (before.state, before.reason, before.last_step) == (
            trial.state,
            trial.reason,
            trial.last_step,
        )
        if not same:
            self.changes.append(trial.number)

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """What somebody keeps about these trials from one question to the next, made when it is first asked for.

        Args:
            key: What it is; the same key always stands for the same type.
            make: Makes it.
        """
        if key not in self._kept:
            self._kept[key] = make()
        return cast("T", self._kept[key])

    def free(self, steps: int) -> None:
        """Notes steps that a trial has without having cost anything: an earlier one has trained them."""
        self.steps -= steps

    def count(self, *states: TrialState) -> int:
        """How many trials are in one of these states."""
        return sum(len(self._states[state]) for state in states)

    def having(self, *states: TrialState) -> list[Trial]:
        """The trials in one of these states, by number."""
        return [self._trials[number] for number in sorted(set().union(*(self._states[state] for state in states)))]
