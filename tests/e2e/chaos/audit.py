"""What is left when the dust has settled: read from the store, Optuna, MLflow, the disk and the process table."""

from __future__ import annotations

import json
import math
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Protocol

import optuna
from sqlalchemy import text

from autotune.store import Store
from autotune.store.optuna_storage import open_storage
from tests.e2e.chaos.world import STEPS

ENDS = ("completed", "failed", "cancelled")


def mirrored(database: str) -> bool:
    """Whether Optuna and MLflow have everything of the jobs that have ended, as far as the service knows."""
    store = Store(database)
    try:
        with store.read() as work:
            return not work.jobs.behind(time.time() + 1e6)
    finally:
        store.close()


class Scene(Protocol):
    """Where to look.

    Attributes:
        database: URL of the study database.
        root: The home directory of the service.
        tracking: URI of MLflow.
        jobs: The jobs that were submitted.
    """

    database: str
    root: Path
    tracking: str
    jobs: list[str]

    def strays(self) -> dict[int, str]:
        """Processes that should have ended, by their id."""
        ...

    def placement_groups(self) -> list[str]:
        """Placement groups that should have gone from Ray."""
        ...


class Audit:
    """Looks at a scene whose jobs have ended and whose service was stopped.

    Attributes:
        lost: Results that a trial produced and that are missing somewhere.
        duplicates: Results that are somewhere more than once.
        orphans: Processes, leases and running trials that nobody owns.
        unexplained: Jobs and trials that ended badly without a reason.
        budgets: Trials whose cost is not what was used.
    """

    def __init__(self, world: Scene) -> None:
        self._world = world
        self.lost: list[str] = []
        self.duplicates: list[str] = []
        self.orphans: list[str] = []
        self.unexplained: list[str] = []
        self.budgets: list[str] = []
        self.trials = 0
        self.used_s = 0.0
        self.charged_s = 0.0
        store = Store(world.database)
        try:
            with store.read() as work:
                self._jobs = [
                    dict(row._mapping) for row in work.connection.execute(text("SELECT * FROM autotune_jobs"))
                ]
                joined = "SELECT t.*, s.job FROM autotune_trials t JOIN autotune_studies s ON s.id = t.study"
                self._trials = [dict(row._mapping) for row in work.connection.execute(text(joined))]
                attempts = "SELECT trial, sum(cost_s) AS cost, sum(ended_at - started_at) AS held"
                found = work.connection.execute(text(f"{attempts} FROM autotune_attempts GROUP BY trial")).all()
                self._costs = {row.trial: row.cost for row in found}
                self._held = {row.trial: row.held for row in found}
                points = "SELECT trial, step FROM autotune_points"
                self._steps: dict[int, list[int]] = defaultdict(list)
                for row in work.connection.execute(text(points)):
                    self._steps[row.trial].append(row.step)
        finally:
            store.close()
        self._look_at_jobs()
        for trial in self._trials:
            self._look_at(trial)
        self._look_at_optuna()
        self._look_at_mlflow()
        self.orphans += [f"process {pid}: {line}" for pid, line in world.strays().items()]
        self.orphans += [f"placement group {name}" for name in world.placement_groups()]

    def _look_at_jobs(self) -> None:
        for job in self._jobs:
            if job["state"] not in ENDS or (job["state"] == "failed" and not job["error_message"]):
                self.unexplained.append(f"job {job['id']} is {job['state']}")
            if job["lease_owner"] is not None:
                self.orphans.append(f"job {job['id']} is leased by {job['lease_owner']}")
        missing = set(self._world.jobs) - {job["id"] for job in self._jobs}
        self.lost += [f"job {job}" for job in sorted(missing)]

    def _look_at(self, trial: dict[str, Any]) -> None:
        self.trials += 1
        name = f"trial {trial['number']} of {trial['job']}"
        output = self._world.root / "jobs" / trial["job"] / "trials" / f"{trial['number']:04d}" / "output"
        state = output / "state.json"
        reached = json.loads(state.read_text())["step"] if state.exists() else 0
        if trial["state"] == "running":
            self.orphans.append(f"{name} is running")
        if trial["state"] in ("failed", "infeasible", "cancelled") and not (trial["error_message"] or trial["reason"]):
            self.unexplained.append(f"{name} is {trial['state']}")
        if reached >= STEPS and trial["state"] not in ("completed", "infeasible"):
            self.lost.append(f"{name} reached its last step and is {trial['state']}: {trial['error_message']}")
        if trial["state"] == "completed":
            right = (math.log10(trial["params"]["lr"]) + 2) ** 2 + 1 / STEPS
            if not math.isclose(trial["value"], right, rel_tol=1e-9):
                self.lost.append(f"{name} has the value {trial['value']} instead of {right}")
            if sorted(self._steps[trial["id"]]) != list(range(1, STEPS + 1)):
                self.lost.append(f"{name} has the steps {sorted(self._steps[trial['id']])}")
        alive = [json.loads(path.read_text()) for path in output.glob("alive-*.json")]
        used = sum(end - start for start, end in alive)
        self.used_s += used
        self.charged_s += trial["cost_s"]
        if not math.isclose(trial["cost_s"], self._costs.get(trial["id"], 0.0), abs_tol=0.01):
            self.budgets.append(f"{name} costs {trial['cost_s']}, its attempts {self._costs.get(trial['id'])}")
        held = self._held.get(trial["id"]) or 0.0  # none has ended where its trial still runs, which is told above
        if trial["cost_s"] > held + 1.0:
            self.budgets.append(
                f"{name} is charged {trial['cost_s']:.2f} s and held its slots for {held:.2f} s at most"
            )
        if trial["cost_s"] < used - 0.05:
            self.budgets.append(f"{name} is charged {trial['cost_s']:.2f} s and used {used:.2f} s")

    def _look_at_optuna(self) -> None:
        storage = open_storage(self._world.database)
        for job in self._jobs:
            mine = {trial["number"]: trial for trial in self._trials if trial["job"] == job["id"]}
            if not mine:
                continue
            found = optuna.load_study(study_name=job["id"], storage=storage).get_trials(deepcopy=False)
            self._count(f"Optuna, {job['id']}", mine, Counter(one.number for one in found))
            for one in found:
                trial = mine.get(one.number)
                if trial and trial["state"] == "completed" and one.values != [trial["value"]]:
                    self.lost.append(f"Optuna, {job['id']}: trial {one.number} is {one.state.name} with {one.values}")
                if not one.state.is_finished():
                    self.orphans.append(f"Optuna, {job['id']}: trial {one.number} is {one.state.name}")
        storage.remove_session()
        storage.engine.dispose()

    def _look_at_mlflow(self) -> None:
        from mlflow.tracking import MlflowClient

        client = MlflowClient(tracking_uri=self._world.tracking)
        experiment = client.get_experiment_by_name("autotune")
        assert experiment is not None
        runs = client.search_runs([experiment.experiment_id], max_results=50_000)
        for job in self._jobs:
            own = [run for run in runs if run.data.tags.get("autotune.job") == job["id"]]
            parents = [run for run in own if run.data.tags.get("autotune.kind") == "job"]
            if len(parents) > 1:
                self.duplicates.append(f"MLflow has {len(parents)} runs of {job['id']}")
            children = [run for run in own if run.data.tags.get("autotune.kind") == "trial"]
            mine = {
                trial["number"]: trial for trial in self._trials if trial["job"] == job["id"] and trial["started_at"]
            }
            self._count(f"MLflow, {job['id']}", mine, Counter(int(run.data.tags["autotune.trial"]) for run in children))
            for run in children:
                trial = mine.get(int(run.data.tags["autotune.trial"]))
                value = run.data.metrics.get("autotune/objective")
                if trial and trial["state"] == "completed" and (run.info.status, value) != ("FINISHED", trial["value"]):
                    self.lost.append(f"MLflow, {run.info.run_name} is {run.info.status} with {value}")
            self.orphans += [f"MLflow, {run.info.run_name} is RUNNING" for run in own if run.info.status == "RUNNING"]

    def _count(self, where: str, wanted: dict[int, Any], found: Counter[int]) -> None:
        self.lost += [f"{where}: no trial {number}" for number in wanted if not found[number]]
        self.duplicates += [f"{where}: trial {number} {count} times" for number, count in found.items() if count > 1]
