"""The brain of one study: says what to run next, and for every report whether the trial goes on.

Pure and single-threaded: no process, no clock of its own, no randomness but the seeds in the space. Everything it
decides is written through the `Book` before it is answered, so a successor that loads the book decides the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from autotune.errors import InvalidSpaceError, Problem
from autotune.search.advisor import outcome_event
from autotune.search.book import Book
from autotune.search.closing import GENTLE, HANDED_ON, Closing, closing_reason
from autotune.search.curves import Curve
from autotune.search.finalists import fresh_runs, is_finalist, source_of
from autotune.search.jury import Jury
from autotune.search.ledger import Ledger
from autotune.search.population import Explorer, Generations, directory_of
from autotune.search.proposer import Proposer
from autotune.search.purse import Purse
from autotune.search.ranking import best_of, ranked
from autotune.search.records import end_text, event, start_text
from autotune.search.retries import Retries
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
    Origin,
    Outcome,
    Pause,
    Point,
    Reason,
    Stop,
    Trial,
    Verdict,
    Wait,
)
from autotune.search.verdicts import failed, finished, hopeless, paused, stopped, unpromoted
from autotune.spec.types import Budget, Space, Start
from autotune.spec.values import FlatConfig
from autotune.states import TrialState, check_trial_transition

__all__ = ["Closing", "Coordinator"]

Check = Callable[[FlatConfig], Sequence[Problem]]
Descent = Callable[[FlatConfig], Origin | None]


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
        seed_path: The configuration's own path for the seed, which the finalists' fresh runs change.
        descent: Finds the earlier trial that a configuration would only repeat the beginning of.
        explorer: What perturbs the members of a population; only a space with one needs it.

    Raises:
        InvalidSpaceError: If a pruner cannot be built, or there are to be finalists and nothing says where the seed is.
        ValueError: If the space has a population and there is no explorer.
    """

    def __init__(  # noqa: PLR0913 - each is one independent fact of the search
        self,
        space: Space,
        base: FlatConfig,
        book: Book,
        *,
        fence: str,
        total_steps: int,
        deadline: float | None = None,
        check: Check = lambda _: (),
        seed_path: str | None = None,
        descent: Descent = lambda _: None,
        explorer: Explorer | None = None,
    ) -> None:
        self._space = space
        self._base = base
        self._fence = fence
        self._deadline = deadline
        self._check = check
        self._descent = descent
        if space.finalists is not None and seed_path is None:
            raise InvalidSpaceError(
                "`finalists` needs fresh seeds, but the trainer does not say where its seed is.",
                hint="Remove `finalists` from the space file.",
            )
        self._seed_path = seed_path or ""
        self._proposer = Proposer(space, base, total_steps)
        self._ledger = Ledger(book)
        self._trials = self._ledger.trials
        self._generations: Generations | None = None
        if space.population is not None:
            if explorer is None:
                raise ValueError("a space with a population needs an explorer")
            self._generations = Generations(space, base, explorer, lambda config: not check(config))
        self._jury = Jury(space, self._ledger, total_steps, self._generations)
        self._total_steps = total_steps
        self._purse = Purse(space, total_steps)
        self._retries = Retries(space.retry)
        self._closing: Closing | None = None
        self._held = False
        self._wanted: deque[Start] = deque()
        self._finals = any(is_finalist(trial) for trial in self._trials.values())

    @property
    def trials(self) -> Mapping[int, Trial]:
        """All trials by number."""
        return self._trials

    @property
    def curves(self) -> Mapping[int, Curve]:
        """Trial number -> curve, of the trials that have one."""
        return self._ledger.curves

    @property
    def closing(self) -> Closing | None:
        """Why nothing more is started; ``None`` while the search goes on."""
        return self._closing

    def close(self, why: Closing) -> None:
        """Starts nothing more and, unless the closing is gentle, ends every running trial at its next word."""
        if self._closing in GENTLE and (why not in GENTLE or self._closing is None):
            self._closing = why

    @property
    def held(self) -> bool:
        """Whether nothing is started for the time being."""
        return self._held

    def hold(self, held: bool) -> None:
        """Starts nothing for the time being, or goes on; what runs is left alone."""
        self._held = held

    def adjust(self, budget: Budget, deadline: float | None) -> None:
        """Takes another budget and deadline from now on."""
        self._space = replace(self._space, budget=budget)
        self._purse = Purse(self._space, self._total_steps)
        self._deadline = deadline

    def enqueue(self, start: Start) -> None:
        """Tries a configuration before the sampler proposes again, once for each label."""
        known = {trial.source for trial in self._trials.values()} | {waiting.label for waiting in self._wanted}
        if start.label not in known:
            self._wanted.append(start)

    def recover(self, now: float, unpaid: Callable[[Trial, float], float] = lambda *_: 0.0) -> None:
        """Queues the trials that a driver left running when it died; they go on from their last checkpoint.

        ``unpaid`` answers for how many seconds one was at work after its last word, which was at this time.
        """
        for trial in self._trials.having(TrialState.RUNNING):
            heard_at = max((point.time for point in self._ledger.curve(trial)[-1:]), default=0.0)
            charged = replace(trial, cost_s=trial.cost_s + unpaid(trial, heard_at))
            text = f"trial {trial.number} was interrupted and is queued again"
            self._ledger.move(trial, TrialState.QUEUED, now, text, becomes=charged)

    def reopen(self, now: float) -> None:
        """Queues the trials that were cancelled or failed, for a job that a person resumes."""
        for trial in self._trials.having(TrialState.CANCELLED, TrialState.FAILED):
            fresh = replace(trial, error_kind=None, error_message="", error_hint="", reason=None, ended_at=None)
            self._ledger.move(trial, TrialState.QUEUED, now, f"trial {trial.number} is queued again", becomes=fresh)

    def best(self) -> Trial | None:
        """The best completed trial whose constraints hold; the earlier one of equals."""
        return best_of(self._trials.values(), self._space.objective)

    def next_trial(self, now: float) -> NextTrial:
        """What to start now.

        Returns:
            ``Launch`` for a trial that waits for another attempt or a fresh proposal, ``Wait`` while the budget allows
            nothing right now, ``Done`` when nothing will be started again, or not before the study is held no longer.

        Raises:
            InvalidSpaceError: If no configuration meets the space's ``require`` conditions.
        """
        self._look_at_the_clock(now)
        running = self._trials.count(TrialState.RUNNING)
        if self._closing is not None:
            return Wait() if running else self._done(now)
        if self._held:
            return Wait() if running else Done()
        if running >= self._space.budget.parallel:
            return Wait()
        self._turn_generation(now)
        queued = self._trials.having(TrialState.QUEUED)
        trial = next((one for one in queued if self._retries.ready(one, now)), None) or self._promotion()
        if trial is not None and self._covers(trial):
            return self._launch(trial, now)
        while self._may_propose():
            trial = self._propose(now)
            problems = self._check(trial.config)
            if not problems:
                return self._launch(trial, now)
            self._reject(trial, problems, now)
        # A paused trial can be launched again once its last process has ended.
        ending = any(self._ledger.occupied(trial) for trial in self._trials.having(TrialState.PAUSED))
        if running or ending or any(not self._retries.ready(one, now) and self._covers(one) for one in queued):
            return Wait()
        return self.next_trial(now) if self._call_finalists(now) else self._done(now)

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
        trial = self._ledger.current(attempt)
        if trial.state not in (TrialState.RUNNING, TrialState.PAUSED):
            return Stop(reason=trial.reason or self._closing_reason())
        if self._ledger.has_reported(attempt, step):
            return self.on_heartbeat(attempt, cost_s, now)
        point = Point(step=step, time=now, metrics=dict(metrics))
        curve = self._ledger.curve(trial).with_point(point)
        trial = replace(trial, last_step=step, cost_s=self._ledger.cost(trial, cost_s))
        # A paused trial takes the step that it was in the middle of: the later attempt begins after it.
        judged = trial.state is TrialState.RUNNING
        verdict = self._jury.judge(trial, curve, growing=self._growing(but=trial.number)) if judged else None
        events: list[Event] = []
        if verdict is not None:
            before, reason = trial.state, verdict.reason
            if isinstance(verdict, Pause):
                trial, text = paused(trial, reason)
            else:
                trial, text = stopped(self._space, trial, curve, reason, now)
            check_trial_transition(str(trial.number), before, trial.state)
            events = [event(trial, now, "trial.state", text, state=trial.state.value, numbers=dict(reason.numbers))]
        self._ledger.grow(trial, attempt, curve, point, events)
        return verdict or self.on_heartbeat(attempt, cost_s, now)

    def on_heartbeat(self, attempt: Attempt, cost_s: float, now: float) -> Verdict:
        """Says whether a trial that has nothing to report goes on.

        Raises:
            StaleAttemptError: If the trial has a newer attempt, or none with this token.
        """
        trial = self._ledger.current(attempt)
        if trial.state is TrialState.PAUSED and trial.reason is not None:
            return Pause(reason=trial.reason)
        if trial.state is not TrialState.RUNNING:
            return Stop(reason=trial.reason or self._closing_reason())
        # The trial stays running until its process has ended: `on_end` gives it its state.
        cost = max(trial.cost_s, self._ledger.cost(trial, cost_s))
        self._trials.put(replace(trial, cost_s=cost))
        self._look_at_the_clock(now)
        if self._closing in GENTLE:
            return Continue()
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
        trial = self._ledger.current(attempt)
        text = f"trial {trial.number} wrote a checkpoint after step {step}"
        self._ledger.save(trial, [event(trial, now, "trial.checkpoint", text, step=step, path=path)])

    def on_end(self, attempt: Attempt, outcome: Outcome, now: float) -> None:
        """Takes the end of an attempt and gives the trial its verdict, or another attempt.

        The same end twice counts once.

        Raises:
            StaleAttemptError: If the trial has a newer attempt, or none with this token.
        """
        trial = self._ledger.current(attempt)
        if self._ledger.has_ended(attempt):
            return
        cost = max(trial.cost_s, self._ledger.cost(trial, outcome.cost_s))
        trial = replace(trial, cost_s=cost)
        ended = event(trial, now, "attempt.end", end_text(attempt, outcome), outcome=outcome.kind.value)
        # A process that got to its end before the order to pause reached it has gone on by itself.
        whole = self._generations is None or outcome.last_step >= self._total_steps
        over = (outcome.kind is EndKind.FINISHED and whole) or outcome.kind in INFEASIBLE_KINDS
        if trial.state is TrialState.PAUSED and over:
            check_trial_transition(str(trial.number), trial.state, TrialState.RUNNING)
            trial = replace(trial, state=TrialState.RUNNING, reason=None)
        if trial.state is TrialState.RUNNING:
            verdict, text = self._verdict(trial, outcome, now)
            check_trial_transition(str(trial.number), trial.state, verdict.state)
            state = event(verdict, now, "trial.state", text, state=verdict.state.value)
            advice = outcome_event(verdict, self._trials, self._space.objective, now)
            self._ledger.save(verdict, [ended, state, *advice])
        else:
            self._ledger.save(trial, [ended])
        self._ledger.end(attempt)

    def _may_propose(self) -> bool:
        return not self._finals and len(self._trials) < self._space.budget.trials and self._covers(None)

    def _covers(self, trial: Trial | None) -> bool:
        return self._purse.covers(self._trials, trial, finals=self._finals)

    def _growing(self, but: int | None = None) -> bool:
        """Whether a trial other than ``but`` runs, waits for its start, or may still be proposed."""
        if self._closing is not None:
            return False
        own = but is not None and self._trials[but].state in (TrialState.RUNNING, TrialState.QUEUED)
        return self._may_propose() or self._trials.count(TrialState.RUNNING, TrialState.QUEUED) > own

    def _promotion(self) -> Trial | None:
        """The paused trial that should go on now."""
        paused = self._jury.promotable(growing=self._growing())
        return next((trial for trial in paused if not self._ledger.occupied(trial)), None)

    def _turn_generation(self, now: float) -> None:
        """Once all members that are left wait at their interval and no process is left, the next generation begins."""
        waiting = self._trials.having(TrialState.PAUSED)
        moving = self._trials.count(TrialState.RUNNING, TrialState.QUEUED) or self._may_propose()
        if self._generations is None or moving or any(self._ledger.occupied(trial) for trial in waiting):
            return
        for turn in self._generations.turn(self._trials, self._ledger.curves):
            self._ledger.turn(turn, now)

    def _call_finalists(self, now: float) -> bool:
        """Queues the fresh runs of the best configurations, once; whether there are any."""
        spec = self._space.finalists
        if spec is None or self._finals:
            return False
        self._end_paused(now)
        best = ranked(self._trials.values(), self._space.objective)[: spec.top]
        for one, run, seed in fresh_runs(best, spec.seeds, self._space.sampler.seed):
            config = {**one.config, self._seed_path: seed}
            text = f"trial {len(self._trials)} is fresh run {run} of finalist {one.number}, with seed {seed}"
            self._ledger.enter(source_of(one.number), one.params, config, now, text)
            self._finals = True
        return self._finals

    def _done(self, now: float) -> Done:
        """Nothing will be started again; what waits ends, unless the study goes on another day."""
        if self._closing is not Closing.CANCELLED and self._closing not in HANDED_ON:
            self._end_paused(now)
            for trial in self._trials.having(TrialState.QUEUED):
                reason = closing_reason(self._closing or Closing.GPU_HOURS, self._purse.words(self._trials))
                text = f"trial {trial.number} was not started: {reason.text}"
                ended = replace(trial, reason=reason, ended_at=now)
                self._ledger.move(trial, TrialState.CANCELLED, now, text, becomes=ended)
        return Done()

    def _end_paused(self, now: float) -> None:
        for trial in self._trials.having(TrialState.PAUSED):
            reason = self._jury.last_word(trial, growing=self._growing())
            ended, text = unpromoted(self._space, trial, self._ledger.curve(trial), reason, now)
            self._ledger.move(trial, TrialState.PRUNED, now, text, becomes=ended)

    def _propose(self, now: float) -> Trial:
        number = len(self._trials)
        starts = self._space.start_from
        if number < len(starts):
            source, params = starts[number].label, self._proposer.start(starts[number])
        elif self._wanted:
            start = self._wanted.popleft()
            source, params = start.label, self._proposer.start(start)
        else:
            source, params = self._proposer.next(number, self._trials.values(), self._ledger.curves)
        text = f"trial {number} was proposed by {'the sampler' if source == 'sampler' else source}"
        return self._ledger.enter(source, params, {**self._base, **params}, now, text)

    def _reject(self, trial: Trial, problems: Sequence[Problem], now: float) -> None:
        message = "; ".join(str(problem) for problem in problems)
        infeasible = replace(
            trial, error_kind=EndKind.CONFIG, error_message=message, error_hint=problems[0].hint, ended_at=now
        )
        text = f"trial {trial.number} was rejected before launch: {message}"
        self._ledger.move(trial, TrialState.INFEASIBLE, now, text, becomes=infeasible)

    def _launch(self, trial: Trial, now: float) -> Launch:
        number = trial.attempt.number + 1 if trial.attempt else 1
        attempt = Attempt(trial=trial.number, number=number, token=f"{self._fence}-{trial.number}-{number}")
        started = replace(trial, attempt=attempt, started_at=now if trial.started_at is None else trial.started_at)
        text = start_text(trial, number)
        if trial.state is TrialState.PAUSED:
            started = replace(started, reason=None)
        of = self._generations
        origin = (of.origin(trial) if of else None) or self._descent(trial.config)
        if origin is not None and trial.last_step < origin.step:
            started = self._ledger.inherit(started, origin, now)
            text = f"{text}; it goes on from step {origin.step} of {origin.name}"
        self._ledger.move(trial, TrialState.RUNNING, now, text, becomes=started)
        self._ledger.begin(trial, attempt)
        return Launch(
            attempt=attempt,
            config=trial.config,
            directory=directory_of(trial.number),
            origin=origin,
            until_step=of.until(trial, self._total_steps) if of else None,
            heard=self._ledger.curve(trial).last_step,
        )

    def _look_at_the_clock(self, now: float) -> None:
        if self._deadline is not None and now >= self._deadline:
            self.close(Closing.WALL_CLOCK)
        if self._purse.spent(self._trials):
            self.close(Closing.GPU_HOURS)
        if (why := hopeless(self._space, self._trials, self._ledger.curves)) is not None:
            self.close(why)

    def _verdict(self, trial: Trial, outcome: Outcome, now: float) -> tuple[Trial, str]:
        curve = self._ledger.curve(trial)
        if outcome.kind is EndKind.FINISHED:
            return finished(self._space, trial, curve, now)
        if outcome.kind in INFEASIBLE_KINDS:
            return failed(self._space, trial, curve, outcome, now)
        if self._closing in HANDED_ON:
            return replace(trial, state=TrialState.QUEUED), f"trial {trial.number} was interrupted and is queued again"
        if self._closing is not None:
            reason = self._closing_reason()
            cancelled = replace(trial, state=TrialState.CANCELLED, reason=reason, ended_at=now)
            return cancelled, f"trial {trial.number} was cancelled: {reason.text}"
        planned = self._generations.passed(trial) if self._generations else 0
        again = self._retries.again(trial, outcome, now, planned)
        if again is not None:
            return replace(trial, state=TrialState.QUEUED), again
        return failed(self._space, trial, curve, outcome, now)

    def _closing_reason(self) -> Reason:
        return closing_reason(self._closing, self._purse.words(self._trials))
