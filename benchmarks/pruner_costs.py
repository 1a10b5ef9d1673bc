"""What pruning costs and saves: how often a trial is stopped that would have ended among the best, over recorded runs.

    python benchmarks/pruner_costs.py [--quick] [--json] [--check]

Random configurations, so that the sampler plays no part; each trial's recorded run says where it would have ended.
Counted are the trials that would have ended in the top 5 % of all trials of their search and did not reach the full
length.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from contest.meter import play  # noqa: E402
from contest.ours import Pruners, default, ours  # noqa: E402
from contest.problem import Problem, problem  # noqa: E402
from curve_bank.bank import DATA, Run, load  # noqa: E402
from curve_bank.design import TASKS  # noqa: E402
from curve_bank.fidelity import fidelity  # noqa: E402
from harness import Target, finish, parser, progress  # noqa: E402

TRIALS = 60
PARALLEL = 4
TOP = 0.05


def sets(steps: int) -> Mapping[str, Pruners]:
    """The rules that are compared, for full trials of this many steps."""
    return {
        "default": default(steps),
        "extrapolate": {"extrapolate": {}},
        "extrapolate at a chance of 0.05": {"extrapolate": {"probability": 0.05}},
        "asha from a tenth": {"asha": {"min_steps": steps // 10, "reduction_factor": 3}},
        "asha from a quarter": {"asha": {"min_steps": steps // 4, "reduction_factor": 2}},
        "median": {"median": {}},
        "eval_decline": {"eval_decline": {}},
        "kl_ceiling 0.5, reward_collapse, not_finite": {
            "kl_ceiling": {"above": 0.5},
            "reward_collapse": {"drop": 0.5},
            "not_finite": {},
        },
    }


def cost(task: Problem, runs: Sequence[Run], prune: Pruners, seed: int) -> tuple[int, int, int, int]:
    """Of one search: top trials, those of them that were stopped, steps spent, steps without any pruning."""
    meter = play(
        ours(task, seed, trials=TRIALS, parallel=PARALLEL, sampler="random", prune=prune),
        task,
        parallel=PARALLEL,
        cap=TRIALS * task.steps,
    )
    by_name = {run.name: run for run in runs}
    played = {number: by_name[name] for number, name in meter.plays.items()}
    finals = {number: run.final for number, run in played.items() if run.final is not None}
    count = max(1, math.floor(TOP * len(played)))
    # As many as the last of the top ends equally well: they are the same recorded run.
    bar = sorted(finals.values(), reverse=True)[count - 1]
    top = [number for number, final in finals.items() if final >= bar]
    stopped = [number for number in top if meter.reached.get(number, 0) < task.steps]
    full = sum(len(run.seconds) for run in played.values())
    return len(top), len(stopped), meter.steps, full


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--bank", type=Path, default=DATA, help="where the bank's tables are")
    chosen = options.parse_args(arguments)
    seeds = range(2 if chosen.quick else 10)
    results: dict[str, object] = {}
    targets = []
    for name in sets(0):
        top = stopped = spent = full = 0
        by_task: dict[str, dict[str, float]] = {}
        for task_name in TASKS:
            runs = load(task_name, chosen.bank)
            task = problem(task_name, runs, fidelity(runs).weights)
            prune = sets(task.steps)[name]
            sums = [sum(column) for column in zip(*(cost(task, runs, prune, seed) for seed in seeds), strict=True)]
            by_task[task_name] = {"top_stopped": round(sums[1] / sums[0], 4), "saved": round(1 - sums[2] / sums[3], 3)}
            top, stopped, spent, full = top + sums[0], stopped + sums[1], spent + sums[2], full + sums[3]
        results[name] = {
            "top_trials": top,
            "top_stopped": round(stopped / top, 4),
            "saved": round(1 - spent / full, 3),
            "tasks": by_task,
        }
        progress(f"{name}: {results[name]}")
        if name == "default":
            targets.append(Target(name=f"{name}: top 5 % stopped", value=stopped / top, target=0.02, at_least=False))
    return finish("pruner_costs", chosen, results, targets, ["optuna"])


if __name__ == "__main__":
    raise SystemExit(main())
