"""What a decision costs when a job is long: time per proposal over the number of trials, and a job of 10,000 trials.

    python benchmarks/ask_time.py [--quick] [--json] [--check]

Processor time of `next_trial` and `on_metrics` of the coordinator alone, over synthetic curves on the virtual clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from contest.ours import Pruners, default, ours  # noqa: E402
from contest.problem import Problem  # noqa: E402
from curve_bank.bank import domains  # noqa: E402
from harness import Target, finish, parser, progress  # noqa: E402

from autotune.clock import ManualClock  # noqa: E402
from autotune.execution.ports import Coordinator  # noqa: E402
from autotune.execution.replay import RecordedRun, Replay  # noqa: E402
from autotune.execution.simulated import CurveItem, simulate  # noqa: E402
from autotune.execution.synthetic_curves import ppo_like  # noqa: E402
from autotune.search.types import Attempt, Launch, Metrics, NextTrial, Outcome, Verdict  # noqa: E402
from autotune.spec.values import FlatConfig  # noqa: E402

STEPS = 27
PARALLEL = 64
NO_RULES: Pruners = {}


@dataclass(kw_only=True, slots=True)
class Stopwatch:
    """Stands before a coordinator and takes the processor time of each answer.

    Attributes:
        inner: The coordinator.
        asks: Milliseconds of each answer of `next_trial` that launched a fresh trial, by the number of earlier trials.
        launches: Milliseconds of every other launch: a paused trial that goes on.
        reports: Milliseconds of all reports together.
        count: Number of reports.
    """

    inner: Coordinator
    asks: list[float] = field(default_factory=list)
    launches: list[float] = field(default_factory=list)
    reports: float = 0.0
    count: int = 0

    def next_trial(self, now: float) -> NextTrial:
        """Timed."""
        started = time.process_time()
        answer = self.inner.next_trial(now)
        took = 1000 * (time.process_time() - started)
        if isinstance(answer, Launch):
            (self.asks if answer.attempt.number == 1 else self.launches).append(took)
        return answer

    def on_metrics(self, attempt: Attempt, step: int, metrics: Metrics, cost_s: float, now: float) -> Verdict:
        """Timed."""
        started = time.process_time()
        verdict = self.inner.on_metrics(attempt, step, metrics, cost_s, now)
        self.reports += 1000 * (time.process_time() - started)
        self.count += 1
        return verdict

    def on_heartbeat(self, attempt: Attempt, cost_s: float, now: float) -> Verdict:
        """Handed on."""
        return self.inner.on_heartbeat(attempt, cost_s, now)

    def on_checkpoint(self, attempt: Attempt, step: int, path: str, now: float) -> None:
        """Handed on."""
        self.inner.on_checkpoint(attempt, step, path, now)

    def on_end(self, attempt: Attempt, outcome: Outcome, now: float) -> None:
        """Handed on."""
        self.inner.on_end(attempt, outcome, now)


def job(sampler: str, trials: int, prune: Pruners) -> Stopwatch:
    """A whole simulated job over the bank's parameters and synthetic curves."""
    nothing = RecordedRun(name="", params={path: _any(path) for path in domains()}, steps=[])
    task = Problem(
        task="synthetic", domains=domains(), replay=Replay([nothing], domains()), steps=STEPS, best=1.0, start=0.0
    )
    watch = Stopwatch(inner=ours(task, 0, trials=trials, parallel=PARALLEL, sampler=sampler, prune=prune))

    def curve(config: FlatConfig, seed: int) -> Sequence[CurveItem]:
        return ppo_like({**config, "trainer.optim.lr": float(config["trainer.optim.lr"]) / 100}, seed)

    simulate(watch, curve, parallel=PARALLEL, clock=ManualClock(), steps=STEPS)
    return watch


def around(values: Sequence[float], place: int) -> float:
    """The median of the hundred values that end at a place."""
    return median(values[max(0, place - 100) : place])


def _any(path: str) -> object:
    domain = domains()[path]
    return getattr(domain, "low", None) or domain.options[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    chosen = parser(__doc__.split("\n")[0]).parse_args(arguments)
    sizes = [100, 250, 500, 1000] + ([] if chosen.quick else [2000])
    tpe = job("tpe", sizes[-1], {"asha": {"min_steps": 1, "reduction_factor": 3}})
    by_size = {size: round(around(tpe.asks, size), 2) for size in sizes}
    progress(f"tpe: {by_size} ms per proposal")
    long = 2000 if chosen.quick else 10_000
    started = time.process_time()
    big = job("random", long, default(STEPS))
    seconds = time.process_time() - started
    marks = [place for place in (1000, 2000, 5000, 10_000) if place <= long]
    results = {
        "tpe_ms_per_ask": by_size,
        "tpe_growth_1000_over_500": round(by_size[1000] / by_size[500], 2),
        "long_job": {
            "trials": long,
            "sampler": "random",
            "cpu_s": round(seconds, 1),
            "ms_per_launch": {place: round(around(big.asks, place), 2) for place in marks},
            "ms_per_promotion": round(median(big.launches), 2) if big.launches else None,
            "ms_per_report": round(big.reports / big.count, 3),
            "reports": big.count,
        },
    }
    targets = [Target(name="tpe: ms per ask at 1,000 trials", value=by_size[1000], target=50, at_least=False)]
    return finish("ask_time", chosen, results, targets, ["optuna", "numpy"])


if __name__ == "__main__":
    raise SystemExit(main())
