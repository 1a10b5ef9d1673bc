"""All trials of a study by number, with those in a state, and the sums, at hand without looking at the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from autotune.search.types import Trial
from autotune.states import TrialState


class Roster(Mapping[int, Trial]):
    """Trials by number.

    Args:
        trials: The trials to begin with.

    Attributes:
        cost_s: Seconds of all trials together.
        steps: The steps that all trials have reached, together.
    """

    def __init__(self, trials: Iterable[Trial] = ()) -> None:
        self._trials: dict[int, Trial] = {}
        self._states: dict[TrialState, set[int]] = {state: set() for state in TrialState}
        self.cost_s = 0.0
        self.steps = 0
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

    def count(self, *states: TrialState) -> int:
        """How many trials are in one of these states."""
        return sum(len(self._states[state]) for state in states)

    def having(self, *states: TrialState) -> list[Trial]:
        """The trials in one of these states, by number."""
        return [self._trials[number] for number in sorted(set().union(*(self._states[state] for state in states)))]
