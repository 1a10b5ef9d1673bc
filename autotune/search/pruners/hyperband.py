"""Asynchronous Hyperband: several ASHA brackets side by side, each with another first rung.

Li et al. 2018, "Hyperband", arXiv:1603.06560, Algorithm 1: with ``s_max + 1`` brackets, bracket ``s`` starts ``n_s =
ceil((s_max + 1) / (s + 1) * eta ** s)`` trials with their first rung ``s`` factors below the full length. Here a
trial's bracket follows from its number alone, in rounds of ``sum n_s`` trials, so that a restart asks nobody.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from autotune.search.pruners.asha import PROMOTE, Asha
from autotune.search.pruners.base import Sight, Study
from autotune.search.types import Reason, Trial

T = TypeVar("T")


class _Bracket(Asha):
    """ASHA under Hyperband's name, so that a recorded reason names the pruner of the space file."""

    __slots__ = ()
    name: ClassVar[str] = "hyperband"


@dataclass(frozen=True, kw_only=True, slots=True)
class Hyperband:
    """Runs ASHA in brackets: the first compares early and hard, the last barely at all.

    It hedges against a ``min_steps`` that is too small to tell good trials from bad ones, at the price of longer runs.
    Bracket 0 has its first rung at ``min_steps``, each further one ``reduction_factor`` times later.

    Attributes:
        min_steps: The first rung of the first bracket, in training steps.
        reduction_factor: How much smaller each rung is than the one before.
        brackets: At most this many; a bracket without a rung below the full length is left out.
        metric: The curve that is compared; the objective's own if ``None``.
        mode: ``promote`` or ``stop``, as for ASHA.
        protect_top: As for ASHA, within a bracket.
    """

    name: ClassVar[str] = "hyperband"

    min_steps: int
    reduction_factor: float = 3
    brackets: int = 3
    metric: str | None = None
    mode: str = PROMOTE
    protect_top: int = 3

    @property
    def pauses(self) -> bool:
        """Whether a trial that does not pass a rung is paused instead of stopped."""
        return self.mode == PROMOTE

    def bracket_of(self, number: int, total_steps: int) -> int:
        """The bracket of a trial."""
        sizes = self._sizes(total_steps)
        place = number % sum(sizes)
        for bracket, size in enumerate(sizes):
            if place < size:
                return bracket
            place -= size
        raise AssertionError("a place lies inside its round")

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to pause or stop the trial, or ``None`` to let it go on."""
        bracket = self.bracket_of(sight.trial.number, sight.total_steps)
        own = replace(
            sight,
            peers=self._inside(sight.peers, bracket, sight.total_steps),
            trials=self._inside(sight.trials, bracket, sight.total_steps),
        )
        return _named(self._asha(bracket).judge(own), bracket)

    def promotable(self, study: Study) -> Sequence[int]:
        """The paused trials for which there is room in their bracket."""
        found: list[int] = []
        for bracket in range(len(self._sizes(study.total_steps))):
            found += self._asha(bracket).promotable(self._part(study, bracket))
        return found

    def verdict(self, study: Study, trial: Trial) -> Reason:
        """Why a paused trial ends when nothing can promote it any more."""
        bracket = self.bracket_of(trial.number, study.total_steps)
        reason = self._asha(bracket).verdict(self._part(study, bracket), trial)
        return _named(reason, bracket) or reason

    def _asha(self, bracket: int) -> Asha:
        first = round(self.min_steps * self.reduction_factor**bracket)
        return _Bracket(
            min_steps=first,
            reduction_factor=self.reduction_factor,
            metric=self.metric,
            mode=self.mode,
            protect_top=self.protect_top,
        )

    def _sizes(self, total_steps: int) -> list[int]:
        """How many trials of a round each bracket gets."""
        starts = [round(self.min_steps * self.reduction_factor**bracket) for bracket in range(self.brackets)]
        count = max(1, sum(start < total_steps for start in starts))
        halvings = reversed(range(count))
        return [math.ceil(count / (s + 1) * self.reduction_factor**s) for s in halvings]

    def _part(self, study: Study, bracket: int) -> Study:
        return replace(
            study,
            trials=self._inside(study.trials, bracket, study.total_steps),
            curves=self._inside(study.curves, bracket, study.total_steps),
        )

    def _inside(self, everybody: Mapping[int, T], bracket: int, total_steps: int) -> dict[int, T]:
        return {n: value for n, value in everybody.items() if self.bracket_of(n, total_steps) == bracket}


def _named(reason: Reason | None, bracket: int) -> Reason | None:
    """The reason with its bracket in words and numbers."""
    if reason is None:
        return None
    return replace(
        reason, text=f"{reason.text} in bracket {bracket}", numbers={**reason.numbers, "bracket": float(bracket)}
    )
