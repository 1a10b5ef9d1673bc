"""How fast the live page draws a large job from the real service and its real database, and whether it grows.

``python benchmarks/page_load.py [--trials 200] [--steps 500] [--minutes 10] [--quick] [--json] [--check]``

A job of 200 trials x 500 steps with the metrics of the built-in trainer is written to an SQLite database; the service
serves it on a loopback port, Debian's chromium (without a window) opens the job, and the clock runs until every trial
is in the table and in the curves. Then a running job gets ten events a second for ten minutes (``--quick``: half a
minute) while the page shows it, and the page's memory after garbage collection is compared between the first and the
last minute.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from harness import Target, finish, parser, progress  # noqa: E402

from autotune.api import create_app  # noqa: E402
from autotune.search.types import Attempt, Event, Point, Reason, Trial  # noqa: E402
from autotune.service import open_service  # noqa: E402
from autotune.service.service import Service  # noqa: E402
from autotune.settings import Settings  # noqa: E402
from autotune.states import JobState, TrialState  # noqa: E402
from autotune.store import SqlBook  # noqa: E402
from tests.serving import served  # noqa: E402
from tests.web.browser import Browser, Page, find_chromium  # noqa: E402

MB = 1024 * 1024
OTHERS = 24
"""Metrics of a step besides reward, KL and evaluation, as the built-in trainer writes them."""
SPACE = """
name: large
description: {trials} trials of {steps} steps
trainer: {{overrides: {{data: digits, model: tiny}}}}
search:
  lr: {{float: [3.0e-5, 3.0e-3], log: true}}
  kl_coef: {{float: [0.001, 0.1], log: true}}
  clip_ratio: {{float: [0.05, 0.4]}}
objective: {{metric: eval/reward}}
constraints: ["kl/actor_ref <= 0.3"]
prune: [{{kl_ceiling: {{above: 0.4}}}}, not_finite]
budget: {{trials: {budget}, parallel: 2, steps: {steps}}}
"""
DRAWN = """(() => {
  const plot = document.querySelector('#curves .plot');
  if (!plot?.data) return false;
  const kinds = ['completed', 'pruned', 'infeasible', 'running'];
  const shown = plot.data.filter((trace) => kinds.includes(trace.name)).flatMap((trace) => trace.customdata);
  return new Set(shown).size === %d && document.querySelectorAll('#trials tbody tr').length >= %d;
})()"""


class Job:
    """A job in the database, and what is needed to write to it."""

    def __init__(self, service: Service, trials: int, steps: int) -> None:
        text = SPACE.format(trials=trials, steps=steps, budget=trials + 1)
        self.id = service.submit(text, "large.yaml")[0].id
        with service.store.begin() as work:
            lease = work.jobs.lease(self.id, "benchmark", time.time(), 100_000.0)
            work.jobs.set_state(self.id, JobState.RUNNING, time.time(), lease=lease)
            study = work.jobs.studies(self.id)[0]
        self.book = SqlBook(service.store, study.id, lease)
        dice = random.Random(0)
        for number in range(trials):
            points = curve(dice, steps)
            self.book.save(made(number, points[-1], ended=True), points)

    def begin(self, number: int) -> None:
        """A trial that runs on."""
        self.book.save(made(number, Point(step=1, time=time.time(), metrics={"eval/reward": 0.1}), ended=False))

    def happen(self, number: int, trial: int) -> None:
        """One event of a running trial."""
        trial_now = made(trial, Point(step=1, time=time.time(), metrics={}), ended=False)
        event = Event(at=time.time(), kind="trial.checkpoint", text=f"checkpoint {number}", trial=trial, data={})
        self.book.save(trial_now, [], [event])


def curve(dice: random.Random, steps: int) -> list[Point]:
    """A whole curve with as many metrics as a real one."""
    level, drift = dice.uniform(0.3, 1.0), dice.uniform(0.05, 0.5)
    found = []
    for step in range(1, steps + 1):
        reward = level * step / steps + dice.gauss(0, 0.02)
        metrics: dict[str, float | None] = {f"some/metric_{number}": dice.random() for number in range(OTHERS)}
        metrics |= {"reward/mean": reward, "kl/actor_ref": drift * step / steps}
        if step % 5 == 0:
            metrics["eval/reward"] = reward
        found.append(Point(step=step, time=1000.0 + step, metrics=metrics))
    return found


def made(number: int, last: Point, *, ended: bool) -> Trial:
    """A trial that ended with its curve, every third one stopped for it; or one that runs."""
    dice = random.Random(number)
    values = {
        "trainer.optim.lr": 10 ** dice.uniform(-4.5, -2.5),
        "algorithm.kl_ctrl.kl_coef": 10 ** dice.uniform(-3, -1),
        "algorithm.clip_ratio": dice.uniform(0.05, 0.4),
    }
    pruned = ended and number % 3 == 2
    state = TrialState.PRUNED if pruned else TrialState.COMPLETED if ended else TrialState.RUNNING
    reason = Reason(pruner="kl_ceiling", text="kl/actor_ref was above 0.4", numbers={"above": 0.4})
    return Trial(
        number=number,
        state=state,
        source="default" if number == 0 else "sampler",
        params=values,
        config=values,
        attempt=Attempt(trial=number, number=1, token=f"t{number}"),
        created_at=1000.0,
        started_at=1000.0,
        ended_at=1500.0 if ended else None,
        value=last.metrics.get("eval/reward") if ended and not pruned else None,
        last_step=last.step,
        reason=reason if pruned else None,
        cost_s=500.0,
    )


def load_times(browser: Browser, url: str, job: str, trials: int, rounds: int) -> list[float]:
    """Seconds from opening the job's address until everything is drawn, on a fresh page each time."""
    took = []
    for _ in range(rounds):
        page = browser.open("about:blank")
        began = time.perf_counter()
        page.go(f"{url}/#/jobs/{job}")
        page.wait(DRAWN % (trials, min(trials, 200)), 120)
        took.append(time.perf_counter() - began)
        page.close()
        progress(f"drawn in {took[-1]:.2f} s")
    return took


def heap(page: Page) -> float:
    """The page's memory after garbage collection (MB)."""
    page.call("HeapProfiler.collectGarbage")
    return float(page.call("Runtime.getHeapUsage")["usedSize"]) / MB


def growth(browser: Browser, url: str, job: Job, trials: int, minutes: float) -> list[float]:
    """The page's memory (MB) at ten moments of these minutes, ten events a second."""
    job.begin(trials)
    page = browser.open(f"{url}/#/jobs/{job.id}")
    page.wait(DRAWN % (trials, min(trials, 200)), 120)
    pause, number, found = threading.Event(), 0, []
    for part in range(11):
        end = time.monotonic() + minutes * 60 / 11
        while time.monotonic() < end:
            number += 1
            job.happen(number, trials)
            pause.wait(0.1)
        found.append(heap(page))
        progress(f"{part + 1} of 11: {number} events, {found[-1]:.1f} MB")
    page.close()
    return found[1:]


def main() -> int:
    """Runs the benchmark."""
    options: argparse.ArgumentParser = parser(__doc__ or "")
    options.add_argument("--trials", type=int, default=200)
    options.add_argument("--steps", type=int, default=500)
    options.add_argument("--minutes", type=float, default=10.0)
    chosen = options.parse_args()
    minutes = 0.5 if chosen.quick else chosen.minutes
    program = find_chromium()
    if program is None:
        progress("no chromium here; install it with: apt-get install chromium")
        return 2
    with tempfile.TemporaryDirectory(prefix="page-load-") as folder:
        home = Path(folder) / "home"
        settings = Settings(home=home)
        settings.prepare_home()
        service = open_service(settings)
        progress(f"writing {chosen.trials} trials x {chosen.steps} steps")
        job = Job(service, chosen.trials, chosen.steps)
        browser = Browser(program, Path(folder) / "profile")
        with served(create_app(service, settings)) as url:
            took = load_times(browser, url, job.id, chosen.trials, 2 if chosen.quick else 5)
            sizes = growth(browser, url, job, chosen.trials, minutes)
            browser.close()
    grown = statistics.mean(sizes[-3:]) - statistics.mean(sizes[:3])
    results = {
        "trials": chosen.trials,
        "steps": chosen.steps,
        "first_load_s": took[0],
        "load_s": statistics.median(took),
        "loads_s": took,
        "minutes_of_events": minutes,
        "memory_mb": sizes,
        "memory_growth_mb": grown,
    }
    targets = [
        Target(name="seconds until everything is drawn", value=results["load_s"], target=3.0, at_least=False),
        Target(name="growth of the page's memory (MB)", value=grown, target=8.0, at_least=False),
    ]
    return finish("page_load", chosen, results, targets, ["sqlalchemy", "fastapi", "plotly"])


if __name__ == "__main__":
    sys.exit(main())
