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
