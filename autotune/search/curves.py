"""A curve that grows one point at a time and answers for one metric without reading the others."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar, cast, overload

from autotune.search.types import Point

T = TypeVar("T")

Column: TypeAlias = tuple[list[int], list[float | None]]
"""The steps at which a metric was reported, and its values there."""


class Curve(Sequence[Point]):
    """The points of a trial in step order; a value that never changes.

    ``with_point`` answers a longer curve that shares its storage with this one, so that growing costs nothing, and
    keeps a column for each metric, so that a rule that looks at the last three values reads three values.

    Args:
        points: The points, in step order.
    """

    __slots__ = ("_columns", "_known", "_length", "_points")

    def __init__(self, points: Iterable[Point] = ()) -> None:
        self._points: list[Point] = []
        self._columns: dict[str, Column] = {}
        self._known: dict[Hashable, object] = {}
        self._length = 0
        for point in points:
            self._append(point)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Point]:
        return (self._points[index] for index in range(self._length))

    @overload
    def __getitem__(self, index: int) -> Point: ...
    @overload
    def __getitem__(self, index: slice) -> list[Point]: ...
    def __getitem__(self, index: int | slice) -> Point | list[Point]:
        if isinstance(index, slice):
            return [self._points[place] for place in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(f"a curve of {self._length} points has no point {index}")
        return self._points[index % self._length]

    @property
    def last_step(self) -> int:
        """The step of the last point, -1 without one."""
        return self._points[self._length - 1].step if self._length else -1

    def with_point(self, point: Point) -> Curve:
        """The curve up to the point's step with the point at its end; what was behind that step is replaced."""
        if point.step > self.last_step and self._length == len(self._points):
            grown = object.__new__(Curve)
            grown._points, grown._columns, grown._known = self._points, self._columns, self._known
            grown._length = self._length
            grown._append(point)
            return grown
        return Curve([*(earlier for earlier in self if earlier.step < point.step), point])

    def once(self, until: int, key: Hashable, value: Callable[[], T]) -> T:
        """What depends on the curve up to a step that it has reached, computed once for all longer curves.

        Args:
            until: The step.
            key: What it is; the same key always stands for the same type.
            value: Computes it.
        """
        if self.last_step < until:
            return value()
        if (until, key) not in self._known:
            self._known[until, key] = value()
        return cast("T", self._known[until, key])

    def column(self, metric: str, until: int | None = None) -> tuple[list[int], list[float | None], int]:
        """A metric's reports: their steps, their values, and how many of them belong to this curve.

        The lists may be longer than that count and must not be changed.

        Args:
            metric: Metric name.
            until: Ignore later steps; ``None`` = take all.
        """
        steps, values = self._columns.get(metric, ([], []))
        last = self.last_step if until is None else min(until, self.last_step)
        return steps, values, bisect_right(steps, last)

    def _append(self, point: Point) -> None:
        self._points.append(point)
        self._length += 1
        for metric, value in point.metrics.items():
            column = self._columns.get(metric)
            if column is None:
                column = self._columns[metric] = ([], [])
            column[0].append(point.step)
            column[1].append(value)
