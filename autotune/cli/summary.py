"""What a person needs at the end of a job: the winner, what was pruned and why, where to look, what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.cli.output import data, duration, number, value_text
from autotune.cli.stages import print_stages
from autotune.cli.watch import why_of
from autotune.errors import AutotuneError
from autotune.states import TrialState
from autotune.views import AdvisedView, BestView, JobView, TrialView

if TYPE_CHECKING:
    from autotune.cli.connect import Connection
    from autotune.client import Client

DASHBOARD_URL = "http://127.0.0.1:8765/dashboard"
UP = "autotune up"
_SHOWN = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where something can be looked at: a file or an address, and the command that has to run for it."""

    where: str
    command: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The end of a job, for people and for ``--json``.

    Attributes:
        pruned: Pruner -> number of trials it stopped.
        steps_run: Training steps of all trials; ``steps_planned`` what they would have been without pruning.
        next: Commands worth running now.
    """

    job: JobView
    best: BestView | None
    trials: list[TrialView]
    pruned: Mapping[str, int]
    steps_run: int
    steps_planned: int
    report: Place
    dashboard: Place
    mlflow: Place
    next: list[str]


def summarize(connection: Connection, job_id: str) -> Summary:
    """Collects the end of a job; writes its report when the job's files are on this machine."""
    client = connection.client
    job = client.job(job_id)
    trials = list(client.all_trials(job_id))
    best = client.best(job_id) if job.best_trial is not None else None
    commands = [
        f"autotune best {job_id} --overrides",
        f"autotune export {job_id}",
        f"autotune show {job_id}",
        f"autotune report {job_id}",
    ]
    if best is None:
        commands = [f"autotune show {job_id}", f"autotune logs {job_id}"]
    return Summary(
        job=job,
        best=best,
        trials=trials,
        pruned=dict(
            Counter(trial.reason.pruner for trial in trials if trial.state == TrialState.PRUNED and trial.reason)
        ),
        steps_run=sum(trial.last_step for trial in trials),
        steps_planned=job.steps * len(trials),
        report=_report(client, job, local=connection.embedded is not None),
        dashboard=_dashboard(connection),
        mlflow=_mlflow(connection, job),
        next=commands,
    )


def print_summary(summary: Summary) -> None:
    """Prints the end of a job on stdout."""
    job = summary.job
    data(f"Job {job.id} {job.state}: {_counts(job)}, {duration(job.cost_s)} of trials.")
    data()
    print_stages(job)
    _print_winner(summary)
    _print_stopped(summary)
    data()
    for title, place in (
        ("Report", summary.report),
        ("Optuna Dashboard", summary.dashboard),
        ("MLflow", summary.mlflow),
    ):
        data(f"{title + ':':18}{place.command + ', then ' if place.command else ''}{place.where}")
    data(f"{'Next:':18}{summary.next[0]}")
    for command in summary.next[1:]:
        data(f"{'':18}{command}")


def _print_winner(summary: Summary) -> None:
    best, job = summary.best, summary.job
    if best is None:
        data("Winner: none, no trial has completed within the constraints.")
        return
    metric = best.objective.metric
    against = "the default configuration has not completed"
    if best.default is not None:
        against = f"default {number(best.default.value)}"
        if best.trial.number == best.default.number:
            against = "it is the default configuration; nothing better was found"
        elif best.improvement is not None:
            against += f", {'better' if best.improvement > 0 else 'worse'} by {number(abs(best.improvement))}"
    data(f"Winner: trial {best.trial.number}, {metric} {number(best.trial.value)} ({against})")
    if best.finding:
        data(f"  {best.finding}")
    defaults = best.default.params if best.default is not None else {}
    width = max((len(path) for path in best.trial.params), default=0)
    for path, value in best.trial.params.items():
        was = f"   (default {value_text(defaults[path])})" if path in defaults and defaults[path] != value else ""
        data(f"  {path:{width}} = {value_text(value)}{was}")
    if job.best_trial is not None and best.checkpoint:
        data(f"  checkpoint: {best.checkpoint}")


def _print_stopped(summary: Summary) -> None:
    stopped = [trial for trial in summary.trials if trial.state == TrialState.PRUNED]
    if stopped:
        by = ", ".join(f"{count} by {pruner}" for pruner, count in sorted(summary.pruned.items()))
        saved = summary.steps_planned - summary.steps_run
        data()
        data(
            f"Pruned: {len(stopped)} of {len(summary.trials)} trials ({by}); "
            f"{saved} of {summary.steps_planned} steps were not run."
        )
        _print_reasons(stopped)
    broken = [trial for trial in summary.trials if trial.error is not None]
    if broken:
        data()
        data(f"Did not work: {len(broken)} of {len(summary.trials)} trials.")
        _print_reasons(broken)


def _print_reasons(trials: Sequence[TrialView]) -> None:
    for trial in trials[:_SHOWN]:
        data(f"  trial {trial.number} {trial.state} at step {trial.last_step}: {why_of(trial)}")
    if len(trials) > _SHOWN:
        data(f"  and {len(trials) - _SHOWN} more")


def advised_text(advised: Sequence[AdvisedView]) -> str:
    """What came of the advice that became trials, in a few words; empty where none did."""
    if not advised:
        return ""
    trials, still = sum(len(one.trials) for one in advised), sum(one.open for one in advised)
    better = sum(one.better for one in advised)
    rules = ", ".join(f"{one.rule} {one.better} of {len(one.trials) - one.open}" for one in advised)
    waits = f", {still} not ended" if still else ""
    return f"{better} of {trials - still} trials from advice did better than the trial before{waits} ({rules})"


def _counts(job: JobView) -> str:
    return ", ".join(f"{count} {state}" for state, count in job.trials.items() if count) or "no trial"


def _report(client: Client, job: JobView, *, local: bool) -> Place:
    if not local:
        return Place(where=f"{client.base_url}/v1/jobs/{job.id}/report", command=None)
    try:
        client.report(job.id)
    except AutotuneError as error:
        return Place(where=f"it could not be written: {error.message}", command=None)
    return Place(where=str(Path(job.directory) / "report.html"), command=None)


def _dashboard(connection: Connection) -> Place:
    if connection.embedded is None:
        return Place(where=f"{connection.client.base_url}/dashboard", command=None)
    return Place(where=DASHBOARD_URL, command=UP)


def _mlflow(connection: Connection, job: JobView) -> Place:
    if connection.embedded is None:
        return Place(where=f"run {job.mlflow_run or 'not recorded'} in the MLflow of the service", command=None)
    settings = connection.settings
    served = settings.tracking_uri.startswith(("http://", "https://"))
    return Place(where=settings.mlflow_pages, command=None if served else UP)
