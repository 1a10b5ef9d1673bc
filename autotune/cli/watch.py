"""Follows a job: a live table on a terminal, one line for each change elsewhere; all of it on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from autotune.cli.output import clean, duration, number, say, value_text
from autotune.cli.stages import check_line
from autotune.clock import Clock, SystemClock
from autotune.errors import AutotuneError, UnreachableError
from autotune.states import JOB_ENDS, TRIAL_ENDS, TrialState
from autotune.views import JobView, StageView, TrialView

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from autotune.client import Client

_STYLES = {
    "running": "cyan",
    "completed": "green",
    "pruned": "yellow",
    "infeasible": "magenta",
    "failed": "red",
    "cancelled": "dim",
}
_LOOK_S = 1.0
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
            self._live.update(render(job, trials, rows=max(3, self._console.height - 6)), refresh=True)
        else:
            self._lines(job, trials)
        return job

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
        return f"{head} ({trial.source}{again}): {_params(trial)}"
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


def render(job: JobView, trials: Sequence[TrialView], *, rows: int) -> RenderableType:
    """The live table: the newest trials that fit, running ones first to stay."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    head = Text.assemble((clean(job.id), "bold"), " ", (job.state, _STYLES.get(job.state, "")))
    head.append("  " + clean(progress_line(job)))
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, expand=True)
    # Without a smallest width the long last column would squeeze the others to nothing.
    drawn.add_column("trial", justify="right", no_wrap=True, min_width=5)
    drawn.add_column("state", no_wrap=True, min_width=10)
    for name in ("step", job.objective.metric, "kl/actor_ref"):
        drawn.add_column(name, justify="right", no_wrap=True, min_width=min(16, max(len(name), 7)))
    drawn.add_column("parameters, or why it ended", overflow="ellipsis", no_wrap=True, ratio=1)
    for trial in _fitting(trials, rows):
        value = trial.value if trial.value is not None else trial.metrics.get(job.objective.metric)
        best = trial.number == job.best_trial
        drawn.add_row(
            f"{trial.number}{'*' if best else ''}",
            Text(trial.state, style=_STYLES.get(trial.state, "")),
            f"{trial.last_step}/{job.steps}",
            Text(number(value), style="bold green" if best else ""),
            number(trial.metrics.get("kl/actor_ref")),
            Text(clean(why_of(trial) or _params(trial))),
        )
    return Group(head, drawn)


def _fitting(trials: Sequence[TrialView], rows: int) -> list[TrialView]:
    shown = [trial for trial in trials if trial.state not in TRIAL_ENDS][-rows:]
    room = rows - len(shown)
    ended = [trial for trial in trials if trial.state in TRIAL_ENDS]
    return sorted(shown + (ended[-room:] if room else []), key=lambda trial: trial.number)


def short(path: str) -> str:
    """The last part of a parameter's path, as people call it."""
    return path.rpartition(".")[2]


def _params(trial: TrialView) -> str:
    return " ".join(f"{short(path)}={value_text(value)}" for path, value in trial.params.items()) or "as configured"
