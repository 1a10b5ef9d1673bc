"""All pruners of a study together: what they say of one report, and which paused trial should go on."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.search.curves import Curve
from autotune.search.ledger import Ledger
from autotune.search.population import Generations
from autotune.search.pruners import Others, Promoter, Sight, Study, build_pruners
from autotune.search.types import Pause, Reason, Stop, Trial
from autotune.spec.types import Space
from autotune.states import TrialState


class Jury:
    """Asks the pruners.

    Args:
        space: Its pruners and objective.
        ledger: The trials and curves to compare with.
        total_steps: Training steps of a full trial.
        generations: What holds the members of a population at each interval.

    Raises:
        InvalidSpaceError: If a pruner cannot be built.
    """

    def __init__(self, space: Space, ledger: Ledger, total_steps: int, generations: Generations | None = None) -> None:
        self._objective = space.objective
        self._ledger = ledger
        self._total_steps = total_steps
        self._pruners = [*build_pruners(space.prune), *([generations] if generations else [])]
        self._promoters = [p for p in self._pruners if isinstance(p, Promoter) and p.pauses]

    def judge(self, trial: Trial, curve: Curve, *, growing: bool) -> Pause | Stop | None:
        """What the pruners say of a trial's last report; a reason to stop goes before a reason to pause.

        Args:
            trial: The trial under judgement.
            curve: Its curve, the report included.
            growing: Whether other trials may still run, so that a comparison is not the last one.
        """
        sight = Sight(
            trial=trial,
            step=trial.last_step,
            curve=curve,
            peers=Others(self._ledger.curves, trial.number),
            objective=self._objective,
            total_steps=self._total_steps,
            trials=Others(self._ledger.trials, trial.number),
            growing=growing,
        )
        pause: Pause | None = None
        for pruner in self._pruners:
            reason = pruner.judge(sight)
            if reason is not None and pruner not in self._promoters:
                return Stop(reason=reason)
            if reason is not None:
                pause = pause or Pause(reason=reason)
        return pause

    def promotable(self, *, growing: bool) -> Iterator[Trial]:
        """The paused trials that should go on now, the most promising first."""
        if not self._ledger.trials.count(TrialState.PAUSED):
            return
        study = self._study(growing=growing)
        for promoter in self._promoters:
            for number in promoter.promotable(study):
                yield self._ledger.trials[number]

    def last_word(self, trial: Trial, *, growing: bool) -> Reason | None:
        """Why a paused trial that nothing will launch again was not promoted."""
        promoter = next((p for p in self._promoters if trial.reason and p.name == trial.reason.pruner), None)
        return promoter.verdict(self._study(growing=growing), trial) if promoter else trial.reason

    def _study(self, *, growing: bool) -> Study:
        return Study(
            trials=self._ledger.trials,
            curves=self._ledger.curves,
            objective=self._objective,
            total_steps=self._total_steps,
            growing=growing,
        )
