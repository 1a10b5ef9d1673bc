"""The brain of one study: says what to run next, and for every report whether the trial goes on.

Pure and single-threaded: no process, no clock of its own, no randomness but the seeds in the space. Everything it
decides is written through the `Book` before it is answered, so a successor that loads the book decides the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from autotune.errors import Problem, StaleAttemptError
from autotune.search.book import Book
from autotune.search.proposer import Proposer
from autotune.search.pruners import Sight, build_pruners
from autotune.search.ranking import best_of
from autotune.search.types import (
    INFEASIBLE_KINDS,
    Attempt,
    Continue,
    Done,
    EndKind,
    Event,
    Launch,
    Metrics,
    NextTrial,
    Outcome,
    Point,
    Reason,
    Stop,
    Trial,
    Verdict,
    Wait,
)
from autotune.search.verdicts import failed, finished, state_for, stopped
from autotune.spec.types import Space
from autotune.spec.values import FlatConfig, JsonValue
from autotune.states import TrialState, check_trial_transition

Check = Callable[[FlatConfig], Sequence[Problem]]


class Closing(StrEnum):
    """Why a study starts nothing more and ends what runs."""

    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    """The driver must go; the trials continue from their checkpoints under another one."""
    WALL_CLOCK = "wall clock"


class Coordinator:
    """Runs the search of one study.

    Args:
        space: What is searched, judged and spent.
        base: The complete configuration before the searched parameters, flat.
        book: Where the truth is kept.
        fence: Prefix of every attempt's token; no two drivers share one.
        total_steps: Training steps of a full trial.
        deadline: Epoch seconds after which the wall-clock budget is spent; ``None`` = never.
        check: Finds what is wrong with a complete configuration before it costs anything.
    """

    def __init__(
        self,
        space: Space,
        base: FlatConfig,
        book: Book,
        *,
        fence: str,
        total_steps: int,
        deadline: float | None = None,
        check: Check = lambda _: (),
    ) -> None:
        self._space = space
        self._base = base
        self._book = book
        self._fence = fence
        self._total_steps = total_steps
        self._deadline = deadline
        self._check = check
        self._proposer = Proposer(space, base)
        self._pruners = build_pruners(space.prune)
        self._closing: Closing | None = None
        history = book.load()
        self._trials: dict[int, Trial] = {trial.number: trial for trial in history.trials}
        self._curves: dict[int, list[Point]] = {number: list(points) for number, points in history.curves.items()}
        self._cost_before: dict[int, float] = {}  # of the trial, when its present attempt started
        self._reported: dict[str, int] = {}  # token of an attempt -> the last step it reported
        self._ended: set[str] = set()  # tokens of the attempts whose end has been counted

    @property
    def trials(self) -> Mapping[int, Trial]:
        """All trials by number."""
        return self._trials

    @property
    def closing(self) -> Closing | None:
        """Why nothing more is started; ``None`` while the search goes on."""
        return self._closing

    def close(self, why: Closing) -> None:
        """Starts nothing more and ends every running trial at its next report or heartbeat."""
        self._closing = self._closing or why

    def recover(self, now: float) -> None:
        """Queues the trials that a driver left running when it died; they go on from their last checkpoint."""
        for trial in list(self._trials.values()):
            if trial.state is TrialState.RUNNING:
                self._move(trial, TrialState.QUEUED, now, f"trial {trial.number} was interrupted and is queued again")

    def reopen(self, now: float) -> None:
        """Queues the trials that were cancelled or failed, for a job that a person resumes."""
        for trial in list(self._trials.values()):
            if trial.state in (TrialState.CANCELLED, TrialState.FAILED):
                fresh = replace(trial, error_kind=None, error_message="", error_hint="", reason=None, ended_at=None)
                self._move(trial, TrialState.QUEUED, now, f"trial {trial.number} is queued again", becomes=fresh)

    def best(self) -> Trial | None:
        """The best completed trial whose constraints hold; the earlier one of equals."""
        return best_of(self._trials.values(), self._space.objective.direction)

    def next_trial(self, now: float) -> NextTrial:
        """What to start now.

        Returns:
            ``Launch`` for a trial that waits for another attempt or a fresh proposal, ``Wait`` while the budget allows
            nothing right now, ``Done`` when nothing will be started again.

        Raises:
            InvalidSpaceError: If no configuration meets the space's ``require`` conditions.
        """
        self._look_at_the_clock(now)
        running = sum(trial.state is TrialState.RUNNING for trial in self._trials.values())
        if self._closing is not None:
            return Wait() if running else Done()
        if running >= self._space.budget.parallel:
            return Wait()
        for trial in sorted(self._trials.values(), key=lambda trial: trial.number):
            if trial.state is TrialState.QUEUED:
                return self._launch(trial, now)
        while len(self._trials) < self._space.budget.trials:
            trial = self._propose(now)
            problems = self._check(trial.config)
            if not problems:
                return self._launch(trial, now)
            self._reject(trial, problems, now)
        return Wait() if running else Done()

    def on_metrics(self, attempt: Attempt, step: int, metrics: Metrics, cost_s: float, now: float) -> Verdict:
        """Takes one step of a trial's curves and says whether the trial goes on.

        The same report twice is answered the same and counted once.

        Args:
            attempt: Who reports.
            step: Training step, from 0 (the evaluation before training).
            metrics: Values of this step; ``None`` for one that was not finite.
            cost_s: Seconds this attempt has occupied its resources so far.
            now: Epoch seconds.

        Raises:
            StaleAttemptError: If the trial has a newer attempt, or none with this token.
        """
        trial = self._current(attempt)
        if trial.state is not TrialState.RUNNING:
            return Stop(reason=trial.reason or self._closing_reason())
        curve = self._curves.setdefault(trial.number, [])
        if step <= self._reported.get(attempt.token, -1):
            return Continue()
        kept = [point for point in curve if point.step < step]
        point = Point(step=step, time=now, metrics=dict(metrics))
        trial = replace(trial, last_step=step, cost_s=self._cost_before[trial.number] + cost_s)
        reason = self._judge(trial, [*kept, point])
        events: list[Event] = []
        if reason is not None:
            check_trial_transition(str(trial.number), trial.state, state_for(reason))
            trial = stopped(self._space, trial, [*kept, point], reason, now)
            text = f"trial {trial.number} was stopped by {reason.pruner}: {reason.text}"
            events = [_event(trial, now, "trial.state", text, state=trial.state.value, numbers=dict(reason.numbers))]
        self._save(trial, [point], events)
        self._curves[trial.number] = [*kept, point]
        self._reported[attempt.token] = step
        if reason is not None:
            return Stop(reason=reason)
        return self.on_heartbeat(attempt, cost_s, now)

    def on_heartbeat(self, attempt: Attempt, cost_s: float, now: float) -> Verdict:
        """Says whether a trial that has nothing to report goes on.

        Raises:
            StaleAttemptError: If the trial has a newer attempt, or none with this token.
        """
        trial = self._current(attempt)
        if trial.state is not TrialState.RUNNING:
            return Stop(reason=trial.reason or self._closing_reason())
        self._look_at_the_clock(now)
        if self._closing is None:
            return Continue()
        # The trial stays running until its process has ended: `on_end` gives it its state.
        self._trials[trial.number] = replace(trial, cost_s=self._cost_before[trial.number] + cost_s)
        return Stop(reason=self._closing_reason())

    def on_checkpoint(self, attempt: Attempt, step: int, path: str, now: float) -> None:
        """Records that a trial has written a checkpoint.

        Args:
            attempt: Who reports.
            step: The step after which it was written.
            path: Relative to the trial's directory.
            now: Epoch seconds.

        Raises:
            StaleAttemptError: If the trial has a newer attempt, or none with this token.
        """
        trial = self._current(attempt)
        text = f"trial {trial.number} wrote a checkpoint after step {step}"
        self._save(trial, [], [_event(trial, now, "trial.checkpoint", text, step=step, path=path)])

    def on_end(self, attempt: Attempt, outcome: Outcome, now: float) -> None:
        """Takes the end of an attempt and gives the trial its verdict, or another attempt.

        The same end twice counts once.

        Raises:
            StaleAttemptError: If the trial has a newer attempt, or none with this token.
        """
        trial = self._current(attempt)
        if attempt.token in self._ended:
            return
        cost = max(trial.cost_s, self._cost_before.get(trial.number, 0.0) + outcome.cost_s)
        trial = replace(trial, cost_s=cost)
        ended = _event(trial, now, "attempt.end", _end_text(attempt, outcome), outcome=outcome.kind.value)
        if trial.state is TrialState.RUNNING:
            verdict, text = self._verdict(trial, outcome, now)
            check_trial_transition(str(trial.number), trial.state, verdict.state)
            state = _event(verdict, now, "trial.state", text, state=verdict.state.value)
            self._save(verdict, [], [ended, state])
        else:
            self._save(trial, [], [ended])
        self._ended.add(attempt.token)

    # -- what to start ---------------------------------------------------------------------------------------------

    def _propose(self, now: float) -> Trial:
        number = len(self._trials)
        starts = self._space.start_from
        if number < len(starts):
            source, params = starts[number].label, self._proposer.start(starts[number])
        else:
            source, params = "sampler", self._proposer.propose(number, self._trials.values(), self._curves)
        trial = Trial(
            number=number,
            state=TrialState.QUEUED,
            source=source,
            params=params,
            config={**self._base, **params},
            created_at=now,
        )
        text = f"trial {number} was proposed by {'the sampler' if source == 'sampler' else source}"
        self._save(trial, [], [_event(trial, now, "trial.state", text, state=trial.state.value)])
        return trial

    def _reject(self, trial: Trial, problems: Sequence[Problem], now: float) -> None:
        message = "; ".join(str(problem) for problem in problems)
        infeasible = replace(
            trial, error_kind=EndKind.CONFIG, error_message=message, error_hint=problems[0].hint, ended_at=now
        )
        text = f"trial {trial.number} was rejected before launch: {message}"
        self._move(trial, TrialState.INFEASIBLE, now, text, becomes=infeasible)

    def _launch(self, trial: Trial, now: float) -> Launch:
        number = trial.attempt.number + 1 if trial.attempt else 1
        attempt = Attempt(trial=trial.number, number=number, token=f"{self._fence}-{trial.number}-{number}")
        started = replace(trial, attempt=attempt, started_at=now if trial.started_at is None else trial.started_at)
        text = f"trial {trial.number} started" if number == 1 else f"trial {trial.number} started attempt {number}"
        self._move(trial, TrialState.RUNNING, now, text, becomes=started)
        self._cost_before[trial.number] = trial.cost_s
        return Launch(attempt=attempt, config=trial.config, directory=f"{trial.number:04d}")

    def _look_at_the_clock(self, now: float) -> None:
        if self._deadline is not None and now >= self._deadline:
            self.close(Closing.WALL_CLOCK)

    # -- what a report means ---------------------------------------------------------------------------------------

    def _judge(self, trial: Trial, curve: Sequence[Point]) -> Reason | None:
        sight = Sight(
            trial=trial,
            step=trial.last_step,
            curve=curve,
            peers={number: points for number, points in self._curves.items() if number != trial.number},
            objective=self._space.objective,
            total_steps=self._total_steps,
        )
        for pruner in self._pruners:
            reason = pruner.judge(sight)
            if reason is not None:
                return reason
        return None

    # -- what an end means -----------------------------------------------------------------------------------------

    def _verdict(self, trial: Trial, outcome: Outcome, now: float) -> tuple[Trial, str]:
        curve = self._curves.get(trial.number, [])
        if outcome.kind is EndKind.FINISHED:
            return finished(self._space, trial, curve, now)
        if outcome.kind in INFEASIBLE_KINDS:
            return failed(self._space, trial, curve, outcome, now)
        if self._closing is Closing.INTERRUPTED:
            return replace(trial, state=TrialState.QUEUED), f"trial {trial.number} was interrupted and is queued again"
        if self._closing is not None:
            reason = self._closing_reason()
            cancelled = replace(trial, state=TrialState.CANCELLED, reason=reason, ended_at=now)
            return cancelled, f"trial {trial.number} was cancelled: {reason.text}"
        attempts = trial.attempt.number if trial.attempt else 0
        if outcome.kind in self._space.retry.on and attempts <= self._space.retry.attempts:
            again = replace(trial, state=TrialState.QUEUED)
            return again, f"trial {trial.number} is tried again after attempt {attempts}: {outcome.message}"
        return failed(self._space, trial, curve, outcome, now)

    def _closing_reason(self) -> Reason:
        words = {
            Closing.CANCELLED: "the job was cancelled",
            Closing.INTERRUPTED: "the driver was told to go; the trial continues later",
            Closing.WALL_CLOCK: "the wall-clock budget is spent",
            None: "the trial has its verdict",
        }
        return Reason(pruner="job", text=words[self._closing])

    # -- the truth -------------------------------------------------------------------------------------------------

    def _current(self, attempt: Attempt) -> Trial:
        trial = self._trials.get(attempt.trial)
        if trial is None or trial.attempt is None or trial.attempt.token != attempt.token:
            present = "none" if trial is None or trial.attempt is None else f"attempt {trial.attempt.number}"
            raise StaleAttemptError(
                f"attempt {attempt.number} of trial {attempt.trial} is not the current one ({present}); "
                "its report is refused."
            )
        return trial

    def _move(self, trial: Trial, state: TrialState, now: float, text: str, *, becomes: Trial | None = None) -> None:
        check_trial_transition(str(trial.number), trial.state, state)
        moved = replace(becomes or trial, state=state)
        self._save(moved, [], [_event(moved, now, "trial.state", text, state=state.value)])

    def _save(self, trial: Trial, points: Sequence[Point], events: Sequence[Event]) -> None:
        self._book.save(trial, points, events)
        self._trials[trial.number] = trial


def _event(trial: Trial, now: float, kind: str, text: str, **data: JsonValue) -> Event:
    return Event(at=now, kind=kind, text=text, trial=trial.number, data=data)


def _end_text(attempt: Attempt, outcome: Outcome) -> str:
    what = f": {outcome.message}" if outcome.message else ""
    return f"attempt {attempt.number} of trial {attempt.trial} ended ({outcome.kind}) at step {outcome.last_step}{what}"
