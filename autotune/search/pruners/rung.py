"""Who has reached a rung and who has gone on from it, kept in order and brought up to date one change at a time.

Successive halving compares at every arrival. Counting everybody anew each time costs a job of ten thousand trials more
than its sampler does; here an arrival, a pause or a promotion costs a search in a sorted list.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from dataclasses import dataclass

Place = tuple[float, int]
"""Minus the score and the trial's number: in this order the best comes first, and of equals the earlier trial."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """One trial at a rung.

    Attributes:
        score: More is better; ``-inf`` for a value that was not finite.
        passed: Whether it has gone on from the rung, in a place that counts.
        waits: Whether it is paused there.
    """

    score: float
    passed: bool
    waits: bool


class Rung:
    """All trials that have reached a rung and compete there."""

    def __init__(self) -> None:
        self._standings: dict[int, Standing] = {}
        self._order: list[Place] = []
        self._waiting: list[Place] = []
        self._passed = 0
        self.seen = 0
        """How many changes of the study have been taken in."""

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, number: int) -> bool:
        return number in self._standings

    @property
    def has_waiting(self) -> bool:
        """Whether somebody is paused at the rung."""
        return bool(self._waiting)

    def score(self, number: int) -> float:
        """The score of a trial that competes."""
        return self._standings[number].score

    def put(self, number: int, standing: Standing | None) -> None:
        """Takes a trial in, replaces it, or leaves it out with ``None``."""
        before = self._standings.get(number)
        if before == standing:
            return
        if before is not None:
            place = (-before.score, number)
            del self._order[bisect_left(self._order, place)]
            if before.waits:
                del self._waiting[bisect_left(self._waiting, place)]
            self._passed -= before.passed
            del self._standings[number]
        if standing is not None:
            place = (-standing.score, number)
            insort(self._order, place)
            if standing.waits:
                insort(self._waiting, place)
            self._passed += standing.passed
            self._standings[number] = standing

    def others(self, but: int) -> int:
        """How many compete, one left out."""
        return len(self) - (but in self)

    def passed(self, but: int) -> int:
        """How many have gone on, one left out."""
        return self._passed - (but in self and self._standings[but].passed)

    def rank(self, score: float, but: int) -> int:
        """1 for a score above those of all others; among equals everybody has the better rank."""
        better = bisect_left(self._order, (-score, -1))
        return 1 + better - (but in self and self._standings[but].score > score)

    def best(self, place: int, but: int) -> float | None:
        """The score in a place from 1 on among all but one; ``None`` when there are fewer."""
        if place < 1 or place > self.others(but):
            return None
        index = place - 1
        if but in self and bisect_left(self._order, (-self._standings[but].score, but)) <= index:
            index += 1
        return -self._order[index][0]

    def able(self, keep: int, room: int) -> list[int]:
        """Up to ``room`` trials that wait at the rung and are among its best ``keep``, the best first."""
        found: list[int] = []
        for place in self._waiting:
            if len(found) >= room or bisect_left(self._order, place) >= keep or not math.isfinite(place[0]):
                break
            found.append(place[1])
        return found

    def leader(self) -> int | None:
        """The trial that waits at the rung and stands above everybody else there."""
        if not self._waiting or self._waiting[0] != self._order[0] or not math.isfinite(self._order[0][0]):
            return None
        number = self._order[0][1]
        second = self.best(1, number)
        return number if second is None or -self._order[0][0] > second else None
