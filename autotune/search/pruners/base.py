"""What a pruner sees and what it may answer.

A pruner is a pure function of the curves and the states of the trials: no memory of its own, no clock, no randomness.
Asked again with the same study it gives the same answer, which is why a restarted coordinator decides like one that
never stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

from autotune.search.finalists import is_finalist
from autotune.search.types import Point, Reason, Trial
from autotune.spec.types import Objective
from autotune.states import TrialState

T = TypeVar("T")

CONDEMNING: frozenset[str] = frozenset(
    {
        "kl_ceiling",
        "kl_slope",
        "reward_collapse",
        "entropy_collapse",
        "length_blowup",
        "throughput_floor",
        "not_finite",
    }
)
"""The pruners that say that a configuration is no good, not that others are better."""
_OUT = frozenset({TrialState.INFEASIBLE, TrialState.FAILED, TrialState.CANCELLED})


def condemned(trial: Trial) -> bool:
    """Whether the trial was ended for what it did itself, however well it stood among the others until then."""
    stopped = trial.state is TrialState.PRUNED and trial.reason is not None and trial.reason.pruner in CONDEMNING
    return stopped or trial.state in _OUT


class Others(Mapping[int, T]):
    """All but one entry of a mapping, without copying it.

    Args:
        everybody: Trial number -> value.
        but: The number that is left out.
    """

    __slots__ = ("_but", "everybody")

    def __init__(self, everybody: Mapping[int, T], but: int) -> None:
        self.everybody = everybody
        self._but = but

    def __getitem__(self, number: int) -> T:
        if number == self._but:
            raise KeyError(number)
        return self.everybody[number]

    def __iter__(self) -> Iterator[int]:
        return (number for number in self.everybody if number != self._but)

    def __len__(self) -> int:
        return len(self.everybody) - (self._but in self.everybody)


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
        trials: All other trials of the study, by number.
        growing: Whether other trials may still run, so that a comparison is not the last one.
    """

    trial: Trial
    step: int
    curve: Sequence[Point]
    peers: Mapping[int, Sequence[Point]]
    objective: Objective
    total_steps: int
    trials: Mapping[int, Trial] = field(default_factory=dict)
    growing: bool = True

    @property
    def compared(self) -> bool:
        """Whether the trial may be stopped because others are better.

        The default configuration may not, it is the yardstick of the answer, nor may a finalist's fresh run.
        """
        return self.trial.source != "default" and not is_finalist(self.trial)


@dataclass(frozen=True, kw_only=True, slots=True)
class Study:
    """Everybody who takes part, for a pruner that launches paused trials again.

    Attributes:
        trials: All trials by number.
        curves: Their curves by number.
        objective: What the job optimises.
        total_steps: Training steps of a full trial.
        growing: Whether a trial runs, waits for its start, or may still be proposed.
    """

    trials: Mapping[int, Trial]
    curves: Mapping[int, Sequence[Point]]
    objective: Objective
    total_steps: int
    growing: bool = True


class Pruner(Protocol):
    """Reads curves and says whether a trial should end."""

    name: ClassVar[str]

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to stop the trial, or ``None`` to let it go on."""
        ...


@runtime_checkable
class Promoter(Protocol):
    """A pruner that pauses trials and may launch them again later.

    Its ``judge`` gives the reason to pause where ``pauses`` says so, to stop otherwise.
    """

    name: ClassVar[str]

    @property
    def pauses(self) -> bool:
        """Whether a trial that is judged badly is paused instead of stopped."""
        ...

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to pause or stop the trial, or ``None`` to let it go on."""
        ...

    def promotable(self, study: Study) -> Sequence[int]:
        """The paused trials that should go on, in the order in which they should be launched."""
        ...

    def verdict(self, study: Study, trial: Trial) -> Reason:
        """Why a paused trial ends when nothing can promote it any more."""
        ...
