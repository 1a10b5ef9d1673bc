"""How much compute a search needs: ours against random, Optuna and Ray Tune, over the recorded runs of the curve bank.

    python benchmarks/search_efficiency.py [--quick] [--json] [--check] [--plot FILE]

Everybody searches the same spaces through the same simulator with the same number of trials at a time, and is told the
same objective at every step. Compute is training steps, those of stopped trials and failed runs included. Found is a
trial of full length whose final held-out objective reaches 95 % of the best known one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from contest.measures import area, mean_interval, ratio_interval, regret_at, seconds_to, steps_to  # noqa: E402
from contest.meter import Found, play  # noqa: E402
from contest.ours import default, ours  # noqa: E402
from contest.peer_ray import ray_peer  # noqa: E402
from contest.peers import optuna_peer  # noqa: E402
from contest.problem import Problem, problem  # noqa: E402
from curve_bank.bank import DATA, Run, load  # noqa: E402
from curve_bank.design import TASKS  # noqa: E402
from curve_bank.fidelity import fidelity  # noqa: E402
from harness import Target, finish, parser, progress  # noqa: E402

from autotune.execution.ports import Coordinator  # noqa: E402

PARALLEL = 4
FULL_TRIALS = 40
"""The compute that a search may spend, in trials of full length."""
TRIALS = 1000
"""More trials than anybody starts: compute is what ends a search."""
SEEDS = 50
OURS = "autotune"
CONTESTANTS: Mapping[str, Callable[..., Coordinator]] = {
    OURS: ours,
    "random search": partial(optuna_peer, sampler="random", pruner="none"),
    "Optuna TPE": partial(optuna_peer, sampler="tpe", pruner="none"),
    "Optuna TPE + Hyperband": partial(optuna_peer, sampler="tpe", pruner="hyperband"),
    "Ray ASHA + OptunaSearch": ray_peer,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One search.

    Attributes:
        steps: Training steps until the target was found, the cap if it was not.
        reached: Whether it was found.
        seconds: As `steps`, in recorded processor seconds.
        final: Final objective of the best trial of full length.
        regrets: Regret at each of the amounts of compute of the grid.
        trials: Trials started.
    """

    steps: int
    reached: bool
    seconds: float
    final: float
    regrets: Sequence[float]
    trials: int


def outcome(
    contestant: Callable[..., Coordinator],
    task: Problem,
    seed: int,
    cap: int,
    grid: Sequence[int],
    parallel: int = PARALLEL,
) -> Outcome:
    """Let one contestant search once."""
    meter = play(contestant(task, seed, trials=TRIALS, parallel=parallel), task, parallel=parallel, cap=cap)
    found: Sequence[Found] = meter.found
    steps, reached = steps_to(found, task.target, cap)
    return Outcome(
        steps=steps,
        reached=reached,
        seconds=seconds_to(found, task.target, meter.seconds),
        final=max([task.start, *(one.value for one in found)]),
        regrets=regret_at(found, task.best, task.start, grid),
        trials=meter.launched,
    )


def summary(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """Means and intervals over the seeds."""
    steps, steps_interval = mean_interval([float(one.steps) for one in outcomes])
    regret, regret_interval = mean_interval([area(one.regrets) for one in outcomes])
    final, final_interval = mean_interval([one.final for one in outcomes])
    return {
        "steps_to_target": round(steps, 1),
        "steps_to_target_95": [round(value, 1) for value in steps_interval],
        "reached": sum(one.reached for one in outcomes) / len(outcomes),
        "cpu_s_to_target": round(fmean(one.seconds for one in outcomes), 1),
        "mean_regret": round(regret, 4),
        "mean_regret_95": [round(value, 4) for value in regret_interval],
        "final": round(final, 4),
        "final_95": [round(value, 4) for value in final_interval],
        "trials": round(fmean(one.trials for one in outcomes), 1),
    }


def targets_of(task: str, outcomes: Mapping[str, Sequence[Outcome]]) -> list[Target]:
    """At most a third of the best peer's compute, at no worse a final quality; no worse than random."""
    own = outcomes[OURS]
    peers = [name for name in outcomes if name != OURS]
    best = min(peers, key=lambda name: fmean(one.steps for one in outcomes[name]))
    ratio, (low, high) = ratio_interval([float(one.steps) for one in own], [float(one.steps) for one in outcomes[best]])
    random_steps = fmean(one.steps for one in outcomes["random search"])
    loss = max(fmean(one.final for one in outcomes[name]) for name in peers) - fmean(one.final for one in own)
    words = f"{task}: compute against {best} (95 %: {low:.2f} to {high:.2f})"
    return [
        Target(name=words, value=ratio, target=1 / 3, at_least=False),
        Target(name=f"{task}: final objective lost against the best peer", value=loss, target=0.01, at_least=False),
        Target(
            name=f"{task}: compute against random search",
            value=fmean(one.steps for one in own) / random_steps,
            target=1.0,
            at_least=False,
        ),
    ]


def about(task: Problem, runs: Sequence[Run], parallel: int) -> dict[str, object]:
    """What makes a task easy or hard, and the least that anybody can spend on it.

    Whoever begins with a configuration that reaches the target, and keeps every slot busy, has spent ``floor`` steps
    when that trial ends.
    """
    first = [run for run in runs if run.seed == 0]
    return {
        "configurations": len(first),
        "reach_the_target": sum(run.final is not None and run.final >= task.target for run in first),
        "start": round(task.start, 4),
        "best": round(task.best, 4),
        "floor": parallel * (task.steps - 1) + 1,
        "prune": default(task.steps),
    }


def table(results: Mapping[str, Mapping[str, Mapping[str, object]]]) -> str:
    """The results as text."""
    lines = []
    for task, by_name in results.items():
        lines.append(f"{task:<26}{'steps to 95 %':>24}{'found':>7}{'mean regret':>24}{'final':>8}{'trials':>8}")
        for name, row in by_name.items():
            steps, regret = row["steps_to_target_95"], row["mean_regret_95"]
            lines.append(
                f"  {name:<24}{row['steps_to_target']:>8} [{steps[0]:>6}, {steps[1]:>6}]{row['reached']:>7.2f}"
                f"{row['mean_regret']:>9.4f} [{regret[0]:.4f}, {regret[1]:.4f}]{row['final']:>8.3f}{row['trials']:>8}"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--plot", type=Path, help="write regret over compute as an image")
    options.add_argument("--bank", type=Path, default=DATA, help="where the bank's tables are")
    options.add_argument("--task", choices=list(TASKS), help="this task alone")
    options.add_argument("--parallel", type=int, default=PARALLEL, help=f"trials at a time (default {PARALLEL})")
    options.add_argument("--seeds", type=int, help=f"seeds per contestant (default {SEEDS}; 3 with --quick)")
    chosen: argparse.Namespace = options.parse_args(arguments)
    seeds = range(chosen.seeds or (3 if chosen.quick else SEEDS))
    results: dict[str, dict[str, dict[str, object]]] = {}
    curves: dict[str, dict[str, list[float]]] = {}
    targets: list[Target] = []
    grids: dict[str, list[int]] = {}
    problems: dict[str, dict[str, object]] = {}
    for name in [chosen.task] if chosen.task else TASKS:
        runs = load(name, chosen.bank)
        task = problem(name, runs, fidelity(runs).weights)
        problems[name] = about(task, runs, chosen.parallel)
        progress(f"{name}: {json.dumps(problems[name])}")
        cap = (FULL_TRIALS // 3 if chosen.quick else FULL_TRIALS) * task.steps
        grid = grids[name] = [task.steps * at for at in range(1, cap // task.steps + 1)]
        outcomes: dict[str, list[Outcome]] = {}
        for contestant, build in CONTESTANTS.items():
            outcomes[contestant] = [outcome(build, task, seed, cap, grid, chosen.parallel) for seed in seeds]
            progress(f"{name}: {contestant}: {json.dumps(summary(outcomes[contestant]))}")
        results[name] = {contestant: summary(found) for contestant, found in outcomes.items()}
        curves[name] = {
            contestant: [fmean(at) for at in zip(*(one.regrets for one in found), strict=True)]
            for contestant, found in outcomes.items()
        }
        targets += targets_of(name, outcomes)
    if chosen.plot is not None:
        from contest.figure import draw

        draw(chosen.plot, grids, curves)
    if not chosen.json:
        print(table(results))
    settings = {"seeds": len(seeds), "parallel": chosen.parallel}
    document = {
        "settings": settings,
        "problems": problems,
        "tasks": results,
        "regret": {"steps": grid, "curves": curves},
    }
    shown = document if chosen.json else {"settings": settings}
    return finish("search_efficiency", chosen, shown, targets, ["optuna", "ray", "numpy"])


if __name__ == "__main__":
    raise SystemExit(main())
