"""Homes in which the commands of the pages find what they speak of: jobs that have ended, that run and that wait."""

from __future__ import annotations

import json
import time
from pathlib import Path

from autotune.clock import ManualClock
from autotune.search.coordinator import Coordinator
from autotune.search.types import EndKind, Launch, Outcome, Stop
from autotune.service.service import Service
from autotune.service.spaces import resolve_document
from autotune.settings import Settings
from autotune.states import JobState
from autotune.store import SqlBook, Store
from tests.docs.reading import ROOT

SPACE = """
name: {name}
description: Two parameters of a tiny model
trainer: {{overrides: {{data: digits, model: tiny}}}}
search:
  lr: {{float: [1.0e-6, 1.0e-3], log: true}}
  kl_coef: {{float: [1.0e-3, 1.0e-1], log: true}}
objective: {{metric: eval/reward}}
constraints: ["kl/actor_ref <= 0.3"]
prune: [{{kl_ceiling: {{above: 0.4, patience: 2}}}}]
budget: {{trials: 8, parallel: 2, steps: 4, wall_clock: 1h}}
start_from: [default]
"""
SCRIPT = """python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=gae data.train_files=train.parquet data.val_files=test.parquet \\
    data.train_batch_size=64 data.max_prompt_length=256 data.max_response_length=128 \\
    actor_rollout_ref.model.path=/models/my-model actor_rollout_ref.actor.optim.lr=1e-6 \\
    trainer.n_gpus_per_node=1 trainer.total_epochs=1
"""


class PreparedHome:
    """A real database with real jobs, whose trials were played instead of trained.

    Args:
        folder: Where the home and the files of the pages go.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = Settings(home=folder / "home")
        self.settings.prepare_home()
        store = Store(self.settings.study_database)
        store.migrate()
        self.clock = ManualClock(time.time())
        self.service = Service(self.settings, store, self.clock)
        (folder / "space.yaml").write_text(SPACE.format(name="mine"))
        (folder / "changes.yaml").write_text("lr: {float: [1.0e-6, 1.0e-4], log: true}\n")
        (folder / "run.sh").write_text(SCRIPT)
        row = {"prompt": "1+1=", "ground_truth": "2"}
        (folder / "prompts.jsonl").write_text(f"{json.dumps(row)}\n" * 40)

    def job(self, state: JobState, name: str = "small") -> str:
        """A job in this state; everything but a queued and a running one has had its trials."""
        job = self.service.submit(SPACE.format(name=name), "space.yaml")[0].id
        if state is JobState.QUEUED:
            return job
        with self.service.store.begin() as work:
            lease = work.jobs.lease(job, "elsewhere/1/x", self.clock.now(), 100_000.0)
            work.jobs.set_state(job, JobState.RUNNING, self.clock.now(), lease=lease)
            study = work.jobs.studies(job)[0]
        (self.settings.job_dir(job) / "driver.log").write_text("the driver is at work\n")
        book = SqlBook(self.service.store, study.id, lease)
        resolved = resolve_document(self.service.document(job), "space.yaml")
        coordinator = Coordinator(
            resolved.space, resolved.base, book, fence="f", total_steps=resolved.steps, seed_path=resolved.seed_path
        )
        for _ in range(4 if state is JobState.RUNNING else 100):
            launch = coordinator.next_trial(self.clock.now())
            if not isinstance(launch, Launch):
                break
            self._play(coordinator, launch, resolved.steps)
        if state is not JobState.RUNNING:
            with self.service.store.begin() as work:
                work.jobs.set_state(job, state, self.clock.now(), lease=lease)
                work.jobs.release(lease)
        return job

    def staged(self) -> str:
        """A job with stages, which waits."""
        text = (ROOT / "search_spaces" / "quickstart-three-stage.yaml").read_text()
        return self.service.submit(text, "three-stage.yaml")[0].id

    def _play(self, coordinator: Coordinator, launch: Launch, steps: int) -> None:
        directory = self.settings.job_dir(self.service.jobs().items[0].id) / "trials" / f"{launch.attempt.trial:04d}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "attempt_1.log").write_text("step 1\n")
        for step in range(1, steps + 1):
            self.clock.advance(0.01)
            metrics = {"eval/reward": launch.config["trainer.optim.lr"] * step, "kl/actor_ref": 0.05 * step}
            if isinstance(coordinator.on_metrics(launch.attempt, step, metrics, 1.0, self.clock.now()), Stop):
                break
        end = Outcome(kind=EndKind.FINISHED, last_step=steps, cost_s=float(steps))
        coordinator.on_end(launch.attempt, end, self.clock.now())
