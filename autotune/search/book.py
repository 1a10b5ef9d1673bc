"""The port through which the search core keeps its truth.

The core decides in memory and writes through this port before it answers. Each method is one transaction, fenced by
the job's lease: a driver that has lost its lease gets ``LeaseLostError`` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from autotune.search.types import Event, Point, Trial


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """Everything a study has seen so far: its trials by number, and each one's curve in step order."""

    trials: Sequence[Trial] = ()
    curves: Mapping[int, Sequence[Point]] = field(default_factory=dict)


class Book(Protocol):
    """Keeps the truth of one study."""

    def load(self) -> History:
        """Reads everything back, for a coordinator that starts over after a crash."""
        ...

    def save(self, trial: Trial, points: Sequence[Point] = (), events: Sequence[Event] = ()) -> None:
        """Writes a trial as it is now (inserting or replacing it by number), new points of its curve and events.

        A point for a step that is already there replaces it: a later attempt repeats the steps after its checkpoint.
        """
        ...


class MemoryBook:
    """Keeps the truth in memory, for simulations that nobody needs to resume on another machine.

    Attributes:
        events: Everything that was recorded, in order.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._trials: dict[int, Trial] = {}
        self._curves: dict[int, dict[int, Point]] = {}

    def load(self) -> History:
        """Reads everything back."""
        curves = {number: [points[step] for step in sorted(points)] for number, points in self._curves.items()}
        return History(trials=[self._trials[number] for number in sorted(self._trials)], curves=curves)

    def save(self, trial: Trial, points: Sequence[Point] = (), events: Sequence[Event] = ()) -> None:
        """Writes a trial as it is now, new points of its curve and events."""
        self._trials[trial.number] = trial
        self._curves.setdefault(trial.number, {}).update({point.step: point for point in points})
        self.events.extend(events)
