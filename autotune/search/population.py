"""Population based training: at each interval the worst go on from the best, with their configuration perturbed.

Jaderberg et al. 2017, "Population Based Training of Neural Networks" (arXiv:1711.09846). The generations are
synchronous: everybody pauses at a multiple of the interval, and when all who are left stand there the bottom quantile
takes over configuration and checkpoint of members of the top quantile. Who that is and how a value is perturbed is
decided behind `Explorer`; here are the rules of the space and of the record. As for pruners nothing is remembered: what
was decided is in the trials, so a restarted coordinator goes on with the same decision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from autotune.search.pruners import Sight, Study
from autotune.search.pruners.standing import score
from autotune.search.seeds import child_seed
from autotune.search.types import Origin, Point, Reason, Trial
from autotune.spec.configs import ordered
from autotune.spec.domains import nearest
from autotune.spec.types import Space
from autotune.spec.values import FlatConfig, JsonValue
from autotune.states import TrialState

_SOURCE = re.compile(r"pbt-(\d+)@(\d+)")
_ALIVE = (TrialState.QUEUED, TrialState.RUNNING, TrialState.PAUSED)
_RELEASED = "released"

Accept = Callable[[FlatConfig], FlatConfig | None]
"""Fits raw values into the space; ``None`` if the configuration cannot be run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One trial of a generation.

    Attributes:
        values: Its parameter values; one that does not exist in its configuration is missing.
        score: More is better; ``-inf`` for an objective that was not finite.
    """

    number: int
    values: FlatConfig
    score: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Exploit:
    """Trial ``loser`` goes on from the checkpoint of trial ``winner`` with these parameters."""

    loser: int
    winner: int
    params: FlatConfig


class Explorer(Protocol):
    """Says who takes over from whom, and with which values."""

    def explore(self, members: Sequence[Member], seed: int, accept: Accept) -> Sequence[Exploit]:
        """The exploits of one generation; the same for the same members and seed.

        Args:
            members: Everybody who is left, by number.
            seed: Of this generation.
            accept: Fits perturbed values into the space, or refuses them.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What a generation means for one member.

    Attributes:
        trial: The trial as it goes on.
        points: The steps that it has skipped, as the better one trained them.
        exploit: The event's sentence and data where it takes over from another one; otherwise ``None``.
    """

    trial: Trial
    points: Sequence[Point] = ()
    exploit: tuple[str, Mapping[str, JsonValue]] | None = None


class Generations:
    """Holds the members at each interval and turns the generation over.

    Args:
        space: Its population, search, conditions and objective.
        base: The complete configuration before the searched parameters, flat.
        explorer: Proposes.
        works: Whether a complete configuration can be run.
    """

    name: ClassVar[str] = "pbt"
    pauses: ClassVar[bool] = True

    def __init__(self, space: Space, base: FlatConfig, explorer: Explorer, works: Callable[[FlatConfig], bool]) -> None:
        self._space = space
        self._interval = space.population.interval if space.population else 0
        self._base = base
        self._explorer = explorer
        self._works = works

    # -- as a pruner that pauses -----------------------------------------------------------------------------------

    def judge(self, sight: Sight) -> Reason | None:
        """The reason to wait at an interval that was just reached; none at the last step."""
        before = sight.curve[-2].step if len(sight.curve) > 1 else 0
        rung = sight.step // self._interval * self._interval
        if not before < rung < sight.total_steps:
            return None
        text = f"waits at step {rung} for the rest of its generation"
        return Reason(pruner=self.name, text=text, numbers={"rung": float(rung)})

    def promotable(self, study: Study) -> Sequence[int]:
        """Who goes on: first those that take over, and a better one once nobody needs its checkpoint any more."""
        alive = [trial for trial in study.trials.values() if trial.state in _ALIVE]
        waiting = [t for t in alive if t.state is TrialState.PAUSED and t.reason and _RELEASED in t.reason.numbers]
        taking = {trial.number: origin for trial in alive if (origin := self.origin(trial)) is not None}
        needed = {origin.directory for origin in taking.values()}
        return sorted(
            (t.number for t in waiting if t.number in taking or directory_of(t.number) not in needed),
            key=lambda number: (number not in taking, number),
        )

    def verdict(self, study: Study, trial: Trial) -> Reason:  # noqa: ARG002 - the signature of all that pause
        """Why a member ends that the job no longer lets go on."""
        rung = trial.reason.numbers["rung"] if trial.reason else float(trial.last_step)
        text = f"the search ended while it waited at step {rung:g}"
        return Reason(pruner=self.name, text=text, numbers={"rung": rung})

    # -- from one generation to the next ---------------------------------------------------------------------------

    def until(self, trial: Trial, total_steps: int) -> int:
        """The step at which the next attempt of a trial pauses or ends."""
        return min(total_steps, (trial.last_step // self._interval + 1) * self._interval)

    def passed(self, trial: Trial) -> int:
        """Generations behind a trial, each of which was an attempt that nothing had broken."""
        return trial.last_step // self._interval

    def origin(self, trial: Trial) -> Origin | None:
        """What a trial goes on from that has taken over and has not reported a step since."""
        found = _SOURCE.fullmatch(trial.source)
        if found is None or trial.last_step > int(found[2]):
            return None
        number = int(found[1])
        return Origin(directory=directory_of(number), step=int(found[2]), name=f"trial {number}", replaces=True)

    def turn(self, trials: Mapping[int, Trial], curves: Mapping[int, Sequence[Point]]) -> list[Turn]:
        """What becomes of each member that waits, now that all who are left do.

        Where a driver died in the middle of it, those that were let go already are left out and the others get what
        they would have got: the scores at the rung and the best members have not changed.
        """
        waiting = [t for t in trials.values() if t.state is TrialState.PAUSED and t.reason is not None]
        reasons = [t.reason.numbers for t in waiting if t.reason]
        rung = min((int(numbers["rung"]) for numbers in reasons if _RELEASED not in numbers), default=0)
        # Who was let go at an earlier rung and has no place yet must come first.
        if not rung or any(numbers["rung"] < rung for numbers in reasons if _RELEASED in numbers):
            return []
        found = [self._member(trial, curves.get(trial.number, ()), rung) for trial in waiting]
        seed = child_seed(self._space.sampler.seed, self.name, rung)
        exploits = {one.loser: one for one in self._explored(found, seed, trials)}
        place = {m.number: rank for rank, m in enumerate(sorted(found, key=lambda m: (-m.score, m.number)), 1)}
        turns: list[Turn] = []
        for trial in waiting:
            if trial.reason is None or _RELEASED in trial.reason.numbers:
                continue
            rank = place[trial.number]
            numbers = {"rung": float(rung), "rank": float(rank), "reached": float(len(found)), _RELEASED: 1.0}
            text = f"is rank {rank} of {len(found)} at step {rung}"
            released = replace(trial, reason=Reason(pruner=self.name, text=text, numbers=numbers))
            exploit = exploits.get(trial.number)
            turns.append(self._taken_over(released, exploit, trials, curves) if exploit else Turn(trial=released))
        return turns

    def fitted(self, values: FlatConfig) -> FlatConfig | None:
        """The parameters nearest to raw values that exist and lie in their domains.

        Returns:
            ``None`` if a value is missing or cannot be fitted, if ``require`` does not hold, or if the configuration
            cannot be run.
        """
        config = dict(self._base)
        params: dict[str, JsonValue] = {}
        for parameter in ordered(self._space.search):
            if parameter.when is not None and not parameter.when.holds(config):
                continue
            if parameter.path not in values:
                return None
            value = nearest(parameter.domain, values[parameter.path])
            if value is None and values[parameter.path] is not None:
                return None
            params[parameter.path] = config[parameter.path] = value
        holds = all(condition.holds(config) for condition in self._space.require)
        return params if holds and self._works(config) else None

    def _explored(self, found: Sequence[Member], seed: int, trials: Mapping[int, Trial]) -> Sequence[Exploit]:
        """The exploits; the default configuration, the yardstick of the answer, is followed but keeps its values."""
        exploits = self._explorer.explore(found, seed, self.fitted)
        if all(trials[one.loser].source != "default" for one in exploits):
            return exploits
        others = [member for member in found if trials[member.number].source != "default"]
        return self._explorer.explore(others, seed, self.fitted)

    def _member(self, trial: Trial, curve: Sequence[Point], rung: int) -> Member:
        reached = score(self._space.objective, curve, rung)
        return Member(number=trial.number, values=trial.params, score=float("-inf") if reached is None else reached)

    def _taken_over(
        self, trial: Trial, exploit: Exploit, trials: Mapping[int, Trial], curves: Mapping[int, Sequence[Point]]
    ) -> Turn:
        winner, before, after = trials[exploit.winner], trial.params, exploit.params
        changed = [path for path in {**before, **after} if before.get(path) != after.get(path)]
        values = "; ".join(f"{path} {_word(before.get(path))} -> {_word(after.get(path))}" for path in changed)
        text = f"trial {trial.number} goes on from step {winner.last_step} of trial {winner.number}: {values}"
        data: dict[str, JsonValue] = {
            "from": winner.number,
            "step": winner.last_step,
            "before": {path: before.get(path) for path in changed},
            "after": {path: after.get(path) for path in changed},
        }
        moved = replace(
            trial,
            source=f"pbt-{winner.number}@{winner.last_step}",
            params=after,
            config={**self._base, **after},
            last_step=winner.last_step,
        )
        skipped = [p for p in curves.get(winner.number, ()) if trial.last_step < p.step <= winner.last_step]
        return Turn(trial=moved, points=skipped, exploit=(text, data))


def directory_of(number: int) -> str:
    """Name of a trial's directory inside the job's."""
    return f"{number:04d}"


def _word(value: JsonValue) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
