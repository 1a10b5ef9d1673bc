"""What a pruner sees and what it may answer.

A pruner is a pure function of the curves: no memory of its own, no clock, no randomness. Asked again with the same
curves it gives the same answer, which is why a restarted coordinator decides like one that never stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from autotune.search.types import Point, Reason, Trial
from autotune.spec.types import Objective


@dataclass(frozen=True, kw_only=True, slots=True)
class Sight:
    """Everything a pruner may look at when one trial has reported a step.

    Attributes:
        trial: The trial under judgement.
        step: The step it has just reported.
        curve: Its points up to ``step``, in step order.
        peers: The curves of all other trials of the study, by number.
        objective: What the job optimises.
        total_steps: Training steps of a full trial.
    """

    trial: Trial
    step: int
    curve: Sequence[Point]
    peers: Mapping[int, Sequence[Point]]
    objective: Objective
    total_steps: int


class Pruner(Protocol):
    """Reads curves and says whether a trial should end."""

    name: ClassVar[str]

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to stop the trial, or ``None`` to let it go on."""
        ...
