"""Puts values that arrive one by one together into steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping


class Steps:
    """Collects the values of a step and hands them on once the step is complete.

    A step is complete when every metric has its value, when the next step begins, or at the end. A program that never
    says its step is counted: a metric that comes again begins the next step, from 1.

    Args:
        names: All metrics there are.
        emit: Called with each complete step.
        numbered: Whether the program says its step; ``None`` = the first values show it.
    """

    def __init__(
        self, names: Collection[str], emit: Callable[[int, Mapping[str, float]], None], *, numbered: bool | None = None
    ) -> None:
        self._names = frozenset(names)
        self._emit = emit
        self._numbered = numbered
        self._step = 0 if numbered else 1
        self._values: dict[str, float] = {}

    def add(self, step: int | None, values: Mapping[str, float]) -> None:
        """Takes values of a step, or, without one, of the step that is under way."""
        if self._numbered is None and (values or step is not None):
            self._numbered = step is not None
        if self._numbered:
            if step is not None and step != self._step:
                self.flush()
                self._step = step
        elif self._values.keys() & values.keys():
            self.flush()
        self._values.update(values)
        if self._values.keys() == self._names:
            self.flush()

    def flush(self) -> None:
        """Hands on what there is."""
        if self._values:
            self._emit(self._step, dict(self._values))
            self._values.clear()
            self._step += not self._numbered
