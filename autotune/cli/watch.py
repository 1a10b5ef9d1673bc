"""Follows a job: a live table on a terminal, one line for each change elsewhere; all of it on stderr."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from autotune.cli.output import duration, number, say, value_text
from autotune.cli.stages import check_line
from autotune.clock import Clock, SystemClock
from autotune.errors import AutotuneError, UnreachableError
from autotune.states import JOB_ENDS, TRIAL_ENDS, TrialState
from autotune.views import JobView, StageView, TrialView

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from autotune.client import Client

_LOOK_S = 1.0
_CURVES_S = 5.0
_PATIENCE_S = 60.0


class Watch:
    """Shows how a job goes on.

    Args:
        client: The way to the service.
        job: The job's id.
        console: Where a live table is drawn; anything but a terminal gets plain lines.
        clock: Tells the time and waits.
    """

    def __init__(self, client: Client, job: str, console: Console, clock: Clock | None = None) -> None:
        self._client = client
        self._job = job
        self._console = console
        self._clock = clock or SystemClock()
        self._next_look = 0.0
        self._live: Live | None = None
        self._job_state = ""
        self._seen: dict[int, tuple[str, int]] = {}
        self._stage = ""
        self._document: Mapping[str, Any] | None = None
        self._curves: Mapping[int, Sequence[float | None]] = {}
        self._next_curves = 0.0

    def __enter__(self) -> Watch:
        if self._console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def refresh(self) -> JobView:
        """Looks once and shows what is new."""
        job = self._client.job(self._job)
        trials = list(self._client.all_trials(self._job))
        if self._live is not None:
            self._live.update(self._picture(job, trials), refresh=True)
        else:
            self._lines(job, trials)
        return job

    def _picture(self, job: JobView, trials: Sequence[TrialView]) -> RenderableType:
        from autotune.cli.live import Seen, fitting, render

        if self._document is None:
            self._document = self._client.space(self._job)
        rows, now = max(3, self._console.height - 7), self._clock.now()
        if now >= self._next_curves:
            # Curves cost more than states, and a line of ten signs hardly changes from one second to the next.
            self._next_curves = now + _CURVES_S
            shown = [trial.number for trial in fitting(trials, rows) if trial.last_step]
            metric = job.objective.metric
            found = self._client.curves(self._job, metrics=[metric], trials=shown, max_points=200) if shown else []
            self._curves = {curve.trial: curve.metrics.get(metric, []) for curve in found}
        seen = Seen(job=job, trials=trials, document=self._document, curves=self._curves, now=now)
        return render(seen, rows=rows, width=self._console.width)

    def tick(self) -> None:
        """Looks at most once a second: looking takes processor time that the trials need.

        A service that does not answer this time is asked again at the next tick.
        """
        if self._clock.now() < self._next_look:
            return
        self._next_look = self._clock.now() + _LOOK_S
        try:
            self.refresh()
        except AutotuneError as error:
            if self._live is None:
                say(f"warning: {error.message}")

    def follow(self) -> JobView:
        """Looks again and again until the job has ended.

        Raises:
            UnreachableError: If the service stays away for a minute; the job goes on.
        """
        answered = self._clock.now()
        while True:
            try:
                job = self.refresh()
                answered = self._clock.now()
                if job.state in JOB_ENDS:
                    return job
            except UnreachableError as error:
                if self._clock.now() - answered > _PATIENCE_S:
                    raise UnreachableError(
                        error.message, hint=f"The job goes on; come back with: autotune watch {self._job}"
                    ) from error
            self._clock.sleep(_LOOK_S)

    def _lines(self, job: JobView, trials: Sequence[TrialView]) -> None:
        if job.stage != self._stage:
            self._leave(job)
        for trial in trials:
            now = (trial.state, trial.attempts)
            if self._seen.get(trial.number) != now:
                self._seen[trial.number] = now
                if trial.state != TrialState.QUEUED:
                    say(describe(job, trial))
        if job.state != self._job_state:
            self._job_state = job.state
            say(f"job {job.id} is {job.state}")

    def _leave(self, job: JobView) -> None:
        """Says what the stages before have come to, and forgets their trials: the next one numbers its own."""
        names = [stage.name for stage in job.stages]
        since = names.index(self._stage) if self._stage in names else 0
        for stage in job.stages[since : names.index(job.stage)]:
            say(stage_end(stage))
        say(f"stage {job.stage} begins")
        self._stage, self._seen = job.stage, {}


def stage_end(stage: StageView) -> str:
    """What a stage has come to, in one line."""
    if stage.best_trial is None:
        return f"stage {stage.name} {stage.state}: no trial completed within the constraints"
    missed = "".join(f"; {check_line(check)}" for check in stage.checks)
    return (
        f"stage {stage.name} {stage.state} with trial {stage.best_trial}, "
        f"{stage.objective.metric} {number(stage.best_value)}{missed}"
    )


def describe(job: JobView, trial: TrialView) -> str:
    """One line about what a trial just became."""
    head = f"trial {trial.number} {trial.state}"
    if trial.state == TrialState.RUNNING:
        again = f", attempt {trial.attempts}" if trial.attempts > 1 else ""
        return f"{head} ({trial.source}{again}): {params_of(trial)}"
    after = f"after step {trial.last_step}"
    if trial.state == TrialState.COMPLETED:
        broken = "" if trial.feasible else ", outside the constraints"
        return f"{head} {after}: {job.objective.metric} {number(trial.value)}{broken}"
    why = why_of(trial)
    return f"{head} {after}: {why}" if why else f"{head} {after}"


def why_of(trial: TrialView) -> str:
    """Who ended a trial and why, in one line; empty when it ended by itself."""
    if trial.reason is not None:
        return f"{trial.reason.pruner}: {trial.reason.text}"
    return f"{trial.error.kind}: {trial.error.message}" if trial.error is not None else ""


def progress_line(job: JobView) -> str:
    """How far a job is, in one line."""
    done = sum(count for state, count in job.trials.items() if state in TRIAL_ENDS)
    parts = [f"{done} of {job.budget_trials} trials"]
    if job.stages:
        place = [stage.name for stage in job.stages].index(job.stage) + 1
        parts.insert(0, f"stage {place} of {len(job.stages)}, {job.stage}")
    parts += [f"{count} {state}" for state, count in job.trials.items() if count]
    if job.best_value is not None:
        against = f" (default {number(job.default_value)})" if job.default_value is not None else ""
        parts.append(f"best {job.objective.metric} {number(job.best_value)}{against}")
    if job.cost_s:
        parts.append(f"{duration(job.cost_s)} of trials")
    return ", ".join(parts)


def short(path: str) -> str:
    """The last part of a parameter's path, as people call it."""
    return path.rpartition(".")[2]


def params_of(trial: TrialView) -> str:
    """A trial's parameters in one line."""
    return " ".join(f"{short(path)}={value_text(value)}" for path, value in trial.params.items()) or "as configured"
