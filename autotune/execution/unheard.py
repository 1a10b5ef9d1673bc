"""Steps that an earlier attempt of a trial took and nobody heard of, because its worker or its driver died first.

They are told by the next attempt, and only once it is clear that it goes on after them: just before its own first
step, or at its end where it has nothing left to do. A step that it takes again is told as it takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autotune.execution.metrics_tail import METRICS_NAME, Line, StepLine, parse_line


class Unheard:
    """What is left of earlier attempts.

    Args:
        directory: The trial directory; no process of an earlier attempt writes there any more.
        heard: The last step that was heard of, -1 for none.
    """

    def __init__(self, directory: Path, heard: int) -> None:
        self._left = [line for line in _curve(directory / METRICS_NAME) if line.step > heard]

    def before(self, lines: Sequence[Line], *, ended: bool) -> tuple[Line, ...]:
        """The new lines of the present attempt, with what comes before them.

        Args:
            lines: What it has said since the last call.
            ended: It says nothing more.
        """
        first = next((line.step for line in lines if isinstance(line, StepLine)), None)
        if not self._left or (first is None and not ended):
            return tuple(lines)
        told = [line for line in self._left if first is None or line.step < first]
        self._left = []
        return (*told, *lines)


def _curve(path: Path) -> list[StepLine]:
    """The steps of all attempts: an attempt that goes on from an earlier step replaces what was behind it."""
    curve: list[StepLine] = []
    try:
        with path.open("rb") as file:
            for raw in file:
                for line in parse_line(raw) if raw.strip() else ():
                    if isinstance(line, StepLine):
                        while curve and curve[-1].step >= line.step:
                            curve.pop()
                        curve.append(line)
    except FileNotFoundError:
        return []
    return curve
