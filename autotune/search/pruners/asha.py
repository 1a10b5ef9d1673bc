"""Asynchronous successive halving: with promotion of paused trials, or judging each trial once.

Li et al. 2018, "A System for Massively Parallel Hyperparameter Tuning", arXiv:1810.05934. Algorithm 2 pauses every
trial at a rung and promotes from the top ``1/reduction_factor`` of it as soon as that fraction has room (``mode:
promote``). The stopping variant of section 3.3 judges a trial once, when it reaches the rung (``mode: stop``):
nothing is started a second time, which pays where a start costs more than the steps between two rungs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from autotune.search.pruners.base import Others, Sight, Study, condemned
from autotune.search.pruners.rung import Rung, Standing
from autotune.search.pruners.standing import about, measured, protected, score, scores, sign
from autotune.search.roster import Roster
from autotune.search.types import Point, Reason, Trial
from autotune.spec.types import Objective
from autotune.states import TrialState

PROMOTE, STOP = "promote", "stop"
NOBODY = -1
"""A number that no trial has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asha:
    """Lets at most ``1/reduction_factor`` of those that reach a rung go on from it.

    The rungs are ``min_steps * reduction_factor ** k`` below the full length. Of ``n`` trials that have reached a rung
    ``floor(n / reduction_factor)`` may go on, the best first; a value that is not finite stands last.

    In the mode ``promote`` a trial for which there is room goes on at once and the others pause; later arrivals make
    room for them. Once no other trial can arrive, one may go on from each rung however few have reached it, so that
    a job always ends with a trial of full length. In the mode ``stop`` everybody passes as long as fewer than
    ``reduction_factor`` trials have reached a rung (one curve is no comparison), and who does not pass is stopped.

    Who passed and was then ended for what it did itself (a KL rule, a loss that is not finite) gives its place back
    and competes no longer. The default configuration always passes and takes nobody's place: its whole curve is the
    yardstick of the job's answer.

    Attributes:
        min_steps: The first rung, in training steps.
        reduction_factor: How much smaller each rung is than the one before.
        metric: The curve that is compared; the objective's own if ``None``.
        mode: ``promote`` or ``stop``.
        protect_top: In the mode ``stop``, what is among this many best at its rung is never stopped, if more trials
            than these got there. A pause is no end, and in the mode ``promote`` the share of a rung is a law.
    """

    name: ClassVar[str] = "asha"

    min_steps: int
    reduction_factor: float = 3
    metric: str | None = None
    mode: str = PROMOTE
    protect_top: int = 3

    @property
    def pauses(self) -> bool:
        """Whether a trial that does not pass a rung is paused instead of stopped."""
        return self.mode == PROMOTE

    def rungs(self, total_steps: int) -> list[int]:
        """The steps at which trials are compared, all below ``total_steps``."""
        rungs: list[int] = []
        step = float(self.min_steps)
        while round(step) < total_steps:
            rungs.append(round(step))
            step *= self.reduction_factor
        return rungs

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to pause or stop the trial, or ``None`` to let it go on."""
        rung = self._rung_just_reached(sight) if sight.compared else None
        if rung is None:
            return None
        objective, number = about(sight.objective, self.metric), sight.trial.number
        others = self._rung(objective, rung, sight.trials, sight.peers, {number: sight.curve})
        if objective.also:
            own = others.score(number) if number in others else None
        else:
            own = score(objective, sight.curve, rung)
        if own is None:
            return None
        reached = others.others(number) + 1
        if not self.pauses and reached < self.reduction_factor:
            return None
        keep = self._keep(reached, growing=self.pauses and sight.growing)
        # In the mode `stop` nobody waits for room, so it is not counted either: the paper's rule is the rank alone.
        taken = others.passed(number) if self.pauses else 0
        ahead = others.best(1, number)
        leads = self.pauses and not sight.growing and own > (-math.inf if ahead is None else ahead)
        if math.isfinite(own) and ((others.rank(own, number) <= keep and taken < keep) or leads):
            return None
        if not self.pauses and protected(sight, self.protect_top, objective, among=self.protect_top + 1):
            return None
        return self._reason(objective, rung, others, number, own, (keep, taken), measured(objective, sight.curve, rung))

    def promotable(self, study: Study) -> Sequence[int]:
        """The paused trials for which there is room at their rung, from the highest rung down, the best first."""
        if not self.pauses:
            return ()
        objective = about(study.objective, self.metric)
        for rung in reversed(self.rungs(study.total_steps)):
            reached = self._rung(objective, rung, study.trials, study.curves)
            if not reached.has_waiting:
                continue
            keep = self._keep(len(reached), growing=study.growing)
            found = reached.able(keep, keep - reached.passed(NOBODY))
            ahead = None if found or study.growing else reached.leader()
            if found or ahead is not None:
                return found if ahead is None else [ahead]
        return ()

    def verdict(self, study: Study, trial: Trial) -> Reason:
        """Why a paused trial ends when nothing can promote it any more."""
        objective = about(study.objective, self.metric)
        rung = int(trial.reason.numbers["rung"]) if trial.reason else self.min_steps
        reached = self._rung(objective, rung, study.trials, study.curves)
        keep, taken = self._keep(len(reached), growing=study.growing), reached.passed(NOBODY)
        values, own = measured(objective, study.curves[trial.number], rung), reached.score(trial.number)
        return self._reason(objective, rung, reached, trial.number, own, (keep, taken), values)

    def _keep(self, reached: int, *, growing: bool) -> int:
        # The tolerance keeps 1/3 of 3 at 1.
        share = int(reached / self.reduction_factor + 1e-9)
        return share if growing else max(1, share)

    def _rung(
        self,
        objective: Objective,
        rung: int,
        trials: Mapping[int, Trial],
        curves: Mapping[int, Sequence[Point]],
        own: Mapping[int, Sequence[Point]] | None = None,
    ) -> Rung:
        """All that have reached a rung, but for those that were ended for what they did themselves.

        With one objective the rung of a whole study is kept and brought up to date. With several, scores are places
        among all present, the one under judgement (``own``) included, and are counted anew.
        """
        roster = trials.everybody if isinstance(trials, Others) else trials
        if isinstance(roster, Roster) and not objective.also:
            everything = curves.everybody if isinstance(curves, Others) else curves
            kept = roster.kept(("rung", self, objective, rung), Rung)
            for number in dict.fromkeys(roster.changes[kept.seen :]):
                reached = score(objective, everything.get(number, ()), rung)
                kept.put(number, self._standing(rung, roster[number], everything.get(number, ()), reached))
            kept.seen = len(roster.changes)
            return kept
        found = Rung()
        able = {n: curve for n, curve in curves.items() if n not in trials or not condemned(trials[n])}
        for number, reached in scores(objective, {**able, **(own or {})}, rung).items():
            present = number in curves and not (own and number in own)
            found.put(number, self._standing(rung, trials.get(number), curves[number] if present else (), reached))
        return found

    def _standing(
        self, rung: int, trial: Trial | None, curve: Sequence[Point], reached: float | None
    ) -> Standing | None:
        """A trial at a rung; ``None`` if it has not reached it, or was ended for what it did itself.

        It has gone on when nobody held it there, and no other pruner stopped it there.
        """
        if reached is None or (trial is not None and condemned(trial)):
            return None
        if trial is None:
            return Standing(score=reached, passed=False, waits=False)
        held = self._held(trial, rung)
        free = trial.source != "default" and not held
        on = bool(curve) and (curve[-1].step > rung or trial.reason is None)
        return Standing(score=reached, passed=free and on, waits=held and trial.state is TrialState.PAUSED)

    def _held(self, trial: Trial, rung: int) -> bool:
        """Whether the trial was paused at the rung and never went on, whatever step it was in the middle of."""
        reason = trial.reason
        ours = reason is not None and reason.pruner == self.name and reason.numbers.get("rung") == rung
        return ours and trial.state in (TrialState.PAUSED, TrialState.PRUNED)

    def _rung_just_reached(self, sight: Sight) -> int | None:
        before = sight.curve[-2].step if len(sight.curve) > 1 else -1
        passed = [rung for rung in self.rungs(sight.total_steps) if before < rung <= sight.step]
        return passed[-1] if passed else None

    def _reason(
        self,
        objective: Objective,
        rung: int,
        reached: Rung,
        number: int,
        own: float,
        counts: tuple[int, int],
        values: Mapping[str, float],
    ) -> Reason:
        keep, taken = counts
        turn, rank = sign(objective), reached.rank(own, number)
        count, bar = reached.others(number) + 1, reached.best(keep, number)
        needed = "none yet" if bar is None else f"needed {turn * bar:.4g}"
        if rank <= keep and math.isfinite(own):
            needed = f"{taken} have gone on already"
        elif objective.also:
            needed = f"by fronts of {len(objective.each)} objectives"
        numbers = {
            "rung": float(rung),
            "rank": float(rank),
            "reached": float(count),
            "keep": float(keep),
            "passed": float(taken),
        }
        if objective.also:
            numbers |= values
        elif math.isfinite(own):
            numbers["value"] = turn * own
        if bar is not None and math.isfinite(bar) and not objective.also:
            numbers["threshold"] = turn * bar
        shown = [f"{one.metric} {_shown(values.get(one.metric))}" for one in objective.each]
        return Reason(
            pruner=self.name,
            text=(f"{', '.join(shown)} at rung {rung} is rank {rank} of {count}; the best {keep} go on ({needed})"),
            numbers=numbers,
        )


def _shown(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4g}"
