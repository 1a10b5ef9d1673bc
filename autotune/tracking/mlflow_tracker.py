"""Follows a job into MLflow: a parent run for the job, a child run for each trial."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.clock import Clock, SystemClock
from autotune.search.book import History
from autotune.search.types import Point, Trial
from autotune.spec.types import Objective
from autotune.states import TRIAL_ENDS, JobState
from autotune.tracking import mlflow_values as words
from autotune.tracking.mlflow_client import connect

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

PARENT = "mlflow.parentRunId"
JOB = "autotune.job"
TRIAL = "autotune.trial"
LAST_STEP = "autotune.last_step"
DIVERGED = "autotune.diverged"
OBJECTIVE = "autotune/objective"


@dataclass(kw_only=True, slots=True)
class _Run:
    """What we know of a trial's run."""

    id: str
    status: str
    tags: dict[str, str]
    complete: bool
    """Whether the parameters were logged."""
    logged: int = -1
    """The last step whose metrics MLflow has."""
    buffer: dict[int, Point] = field(default_factory=dict)
    done: Trial | None = None


class MlflowTracker:
    """An observer that keeps a job's runs in MLflow.

    MLflow is connected at the first use, which takes seconds: call it from a thread that may wait.

    Args:
        uri: Tracking URI.
        experiment: Name of the experiment that all jobs share.
        job: The job's id; a job that is resumed goes on in its earlier runs.
        objective: The job's objective.
        artifacts: Where artifacts of a local experiment are kept; ``None`` = beside its database.
        tags: Further tags for all runs of the job: backend, seed, sampler, ...
        description: Shown as the note of the parent run.
        clock: Decides when buffered metrics are due.
        flush_s: Metrics wait for at most about this many seconds.
    """

    def __init__(
        self,
        uri: str,
        experiment: str,
        job: str,
        *,
        objective: Objective,
        artifacts: Path | None = None,
        tags: Mapping[str, str] | None = None,
        description: str = "",
        clock: Clock | None = None,
        flush_s: float = 5.0,
    ) -> None:
        self._uri, self._experiment_name, self._job = uri, experiment, job
        self._objective = objective
        self._artifacts = artifacts
        self._tags = {f"autotune.{name}": value[: words.MAX_TAG] for name, value in (tags or {}).items()}
        self._description = description
        self._clock = clock or SystemClock()
        self._flush_s = flush_s
        self._flushed_at = self._clock.now()
        self._opened: tuple[MlflowClient, str, str] | None = None
        self._runs: dict[int, _Run] = {}

    def start(self) -> str:
        """Connects, finds or creates the job's parent run, and learns which trials have runs already.

        Returns:
            The id of the parent run.

        Raises:
            UnreachableError: If MLflow does not answer.
            NotAllowedError: If its local database may not be written.
        """
        if self._opened is None:
            client, experiment = connect(self._uri, self._experiment_name, self._artifacts)
            self._opened = (client, experiment, self._parent(client, experiment))
            self._runs = self._children()
        return self._opened[2]

    def page(self, number: int | None) -> str | None:
        """Where MLflow shows a trial's run, for ``None`` the job's, below its address; ``None`` before it is there."""
        if self._opened is None:
            return None
        _, experiment, parent = self._opened
        run = parent if number is None else self._runs[number].id if number in self._runs else None
        return None if run is None else f"#/experiments/{experiment}/runs/{run}"

    def on_save(self, trial: Trial, points: Sequence[Point] = ()) -> None:
        """Follows a save: buffers metrics, writes a change of state at once. Repeating it changes nothing."""
        run = self._run(trial)
        if trial == run.done:
            return
        for point in points:
            if point.step > run.logged:
                run.buffer[point.step] = point
        status, tags = words.status(trial), words.tags(trial)
        moved = status != run.status or any(run.tags.get(name) != value for name, value in tags.items())
        if moved:
            self._write(run, tags, trial)
            self._set_status(run, status, trial)
            run.done = trial if trial.state in TRIAL_ENDS else None
        elif self._due(run):
            self.flush()

    def flush(self) -> None:
        """Writes all buffered metrics."""
        self._flushed_at = self._clock.now()
        for run in self._runs.values():
            if run.buffer:
                self._write(run, {}, None)

    def reconcile(self, history: History) -> None:
        """Brings the runs up to the truth after a crash; no metric is logged twice.

        Runs of trials that the truth does not know are ended as killed.
        """
        self.start()
        known = {trial.number for trial in history.trials}
        for number, run in self._runs.items():
            if number not in known and run.status in {"RUNNING", "SCHEDULED"}:
                self._client.set_terminated(run.id, "KILLED")
                run.status = "KILLED"
        for trial in sorted(history.trials, key=lambda trial: trial.number):
            self.on_save(trial, history.curves.get(trial.number, ()))
        self.flush()

    def close(self, best: Trial | None = None, state: JobState = JobState.COMPLETED) -> None:
        """Writes what is buffered, and the winner and the job's end on the parent run.

        Args:
            best: The winner, if there is one.
            state: The job's state; when it has not ended, its run stays open for the next driver.
        """
        parent = self.start()
        self.flush()
        if best is not None:
            self._write_winner(parent, best)
        self._client.set_tag(parent, "autotune.state", str(state))
        status = words.job_status(state)
        if status == "RUNNING":
            return
        self._client.set_terminated(parent, status, int(self._clock.now() * 1000))

    @property
    def _client(self) -> MlflowClient:
        self.start()
        assert self._opened is not None
        return self._opened[0]

    def _parent(self, client: MlflowClient, experiment: str) -> str:
        own = f"tags.`{JOB}` = '{self._job}' and tags.`autotune.kind` = 'job'"
        found = client.search_runs([experiment], own, max_results=1, order_by=["attributes.start_time ASC"])
        if found:
            run_id = str(found[0].info.run_id)
            if found[0].info.status != "RUNNING":
                client.update_run(run_id, status="RUNNING")
            return run_id
        tags = {JOB: self._job, "autotune.kind": "job", **self._tags}
        if self._description:
            tags["mlflow.note.content"] = self._description[: words.MAX_TAG]
        return str(client.create_run(experiment, run_name=self._job, tags=tags).info.run_id)

    def _children(self) -> dict[int, _Run]:
        assert self._opened is not None
        client, experiment, parent = self._opened
        found: dict[int, _Run] = {}
        token: str | None = None
        twice: list[str] = []
        while True:
            page = client.search_runs([experiment], f"tags.`{PARENT}` = '{parent}'", max_results=1000, page_token=token)
            for run in page:
                if not run.data.tags.get(TRIAL, "").isdecimal():
                    continue
                number = int(run.data.tags[TRIAL])
                if number in found:
                    twice.append(run.info.run_id)
                else:
                    found[number] = _recall(run)
            token = page.token
            if not token:
                break
        for run_id in twice:  # a request that was repeated, or two drivers at the edge of a lease
            client.delete_run(run_id)
        return found

    def _run(self, trial: Trial) -> _Run:
        parent = self.start()
        assert self._opened is not None
        client, experiment, _ = self._opened
        run = self._runs.get(trial.number)
        if run is None:
            tags = {PARENT: parent, JOB: self._job, "autotune.kind": "trial", TRIAL: str(trial.number), **self._tags}
            created = client.create_run(
                experiment,
                start_time=int((trial.started_at or trial.created_at or self._clock.now()) * 1000),
                run_name=f"{self._job}/{trial.number:04d}",
                tags=tags,
            )
            run = self._runs[trial.number] = _Run(
                id=created.info.run_id, status=created.info.status, tags=tags, complete=False
            )
        if not run.complete:
            self._write_params(run.id, trial)
            run.complete = True
        return run

    def _write_params(self, run_id: str, trial: Trial) -> None:
        from mlflow.entities import Param

        kept, artifacts = words.params(trial.params)
        # People search and compare by the names they say; a long value needs no second copy.
        kept |= words.params(words.short_names(trial.params))[0]
        artifacts["config.json"] = json.dumps(dict(trial.config), indent=1)
        for place, text in artifacts.items():
            self._client.log_text(run_id, text, place)
        # The parameters come last: they are how a later start knows that all of this is there.
        for part in words.chunks(list(kept.items()), words.MAX_PARAMS_PER_BATCH):
            self._client.log_batch(run_id, params=[Param(name, value) for name, value in part])

    def _write(self, run: _Run, tags: Mapping[str, str], trial: Trial | None) -> None:
        from mlflow.entities import Metric, RunTag

        points = [run.buffer[step] for step in sorted(run.buffer)]
        values = words.measured(points)
        changed = {name: value for name, value in tags.items() if run.tags.get(name) != value}
        if points:
            changed[LAST_STEP] = str(points[-1].step)
        lost = next((text for text in map(words.divergence, points) if text), None)
        if lost and DIVERGED not in run.tags:
            changed[DIVERGED] = lost
        if trial is not None and trial.state in TRIAL_ENDS and "autotune.value" in tags and trial.value is not None:
            at = int((trial.ended_at or trial.created_at) * 1000)
            values.append((OBJECTIVE, trial.value, at, trial.last_step))
        parts = list(words.chunks(values, words.MAX_METRICS_PER_BATCH)) or [[]]
        for place, part in enumerate(parts):
            # Written again after a crash in between, the same metrics at the same times are recognised by MLflow.
            last = place == len(parts) - 1
            self._client.log_batch(
                run.id,
                metrics=[Metric(*value) for value in part],
                tags=[RunTag(name, value) for name, value in changed.items()] if last else [],
            )
        run.tags |= changed
        if points:
            run.logged = points[-1].step
        run.buffer.clear()

    def _set_status(self, run: _Run, status: str, trial: Trial) -> None:
        if status == run.status:
            return
        if trial.state in TRIAL_ENDS:
            ended = trial.ended_at if trial.ended_at is not None else self._clock.now()
            self._client.set_terminated(run.id, status, int(ended * 1000))
        else:
            self._client.update_run(run.id, status=status)
        run.status = status

    def _due(self, run: _Run) -> bool:
        if self._clock.now() - self._flushed_at >= self._flush_s:
            return True
        return sum(len(point.metrics) for point in run.buffer.values()) >= words.MAX_METRICS_PER_BATCH

    def _write_winner(self, parent: str, best: Trial) -> None:
        from mlflow.entities import Metric, Param, RunTag

        tags = {"autotune.best_trial": str(best.number), "autotune.best_source": best.source}
        if best.number in self._runs:
            tags["autotune.best_run"] = self._runs[best.number].id
        metrics = []
        if best.value is not None:
            tags["autotune.best_value"] = repr(best.value)
            at = int((best.ended_at or best.created_at) * 1000)
            metrics.append(Metric(words.key(f"best/{self._objective.metric}"), best.value, at, best.number))
        kept, artifacts = words.params(best.params)
        for place, text in artifacts.items():
            self._client.log_text(parent, text, f"best/{place}")
        # MLflow never changes a parameter; where an earlier end named another winner, the tags tell the present one.
        present = self._client.get_run(parent).data.params
        new = [Param(name, value) for name, value in kept.items() if name not in present]
        tags |= {f"autotune.best.{name}": value for name, value in kept.items() if present.get(name, value) != value}
        for part in words.chunks(new, words.MAX_PARAMS_PER_BATCH):
            self._client.log_batch(parent, params=part)
        entries = [RunTag(name[: words.MAX_KEY], value[: words.MAX_TAG]) for name, value in tags.items()]
        self._client.log_batch(parent, metrics=metrics)
        for some in words.chunks(entries, words.MAX_PARAMS_PER_BATCH):
            self._client.log_batch(parent, tags=some)


def _recall(run: Run) -> _Run:
    step = run.data.tags.get(LAST_STEP, "-1")
    return _Run(
        id=run.info.run_id,
        status=run.info.status,
        tags=dict(run.data.tags),
        complete=bool(run.data.params),
        logged=int(step),
    )
