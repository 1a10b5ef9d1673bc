"""Rules as detectors of reward over-optimization, on recorded runs whose label the whole curve gives.

    python benchmarks/detectors.py [--quick] [--json] [--check]

The label is `Run.over_optimized` in the curve bank: what is evaluated has fallen for good while what is trained on
rose. A rule sees each run step by step. Options that are not the shipped defaults are chosen by F1 on one half of the
configurations (every other pair: a Sobol sequence alternates) and reported on the other.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from contest.detection import Score, score  # noqa: E402
from curve_bank.bank import DATA, Run, load  # noqa: E402
from harness import Target, finish, parser  # noqa: E402

from autotune.search.pruners import EvalDecline, KlCeiling, KlSlope, Pruner  # noqa: E402

GRIDS: Mapping[str, tuple[Callable[..., Pruner], Mapping[str, Sequence[float]]]] = {
    "eval_decline": (
        EvalDecline,
        {"patience": (2, 3, 4), "drop": (0.1, 0.2, 0.3, 0.5), "smooth": (2, 3, 5), "min_steps": (5, 10)},
    ),
    "kl_ceiling": (KlCeiling, {"above": (0.1, 0.2, 0.3, 0.5, 0.8, 1.2), "patience": (1, 3, 5)}),
    "kl_slope": (KlSlope, {"above": (0.005, 0.01, 0.02, 0.04, 0.08), "window": (4, 8), "patience": (1, 3)}),
}
PUBLISHED = {"precision": 0.98, "recall": 0.99, "false_positive_rate": 0.015}


def tuned(name: str, runs: Sequence[Run], *, thin: int) -> dict[str, float]:
    """The options of a rule that do best on some runs; `thin` looks at each so-many-th combination only."""
    build, grid = GRIDS[name]
    combinations = list(itertools.product(*grid.values()))[::thin]
    options = [dict(zip(grid, values, strict=True)) for values in combinations]
    return max(options, key=lambda one: score(build(**one), runs).f1)


def shown(found: Score, options: Mapping[str, float] | None = None) -> dict[str, object]:
    """A score as plain values."""
    return {
        "options": dict(options or {}),
        "precision": round(found.precision, 3),
        "recall": round(found.recall, 3),
        "false_positive_rate": round(found.false_positive_rate, 3),
        "hits": found.hits,
        "misses": found.misses,
        "alarms": found.alarms,
        "quiet": found.quiet,
        "steps_saved": round(found.saved, 3),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--bank", type=Path, default=DATA, help="where the bank's tables are")
    chosen = options.parse_args(arguments)
    everything = [run for run in load(directory=chosen.bank) if run.points]
    labelled = [run for run in everything if run.task == "exploitable"]
    first = [run for run in labelled if run.number // 2 % 2 == 0]
    second = [run for run in labelled if run.number // 2 % 2]
    results: dict[str, object] = {
        "runs": {
            task: {"runs": len(of), "over_optimized": sum(run.over_optimized for run in of)}
            for task in sorted({run.task for run in everything})
            for of in [[run for run in everything if run.task == task]]
        }
    }
    default = score(EvalDecline(), labelled)
    results["eval_decline as shipped, exploitable"] = shown(default)
    results["eval_decline as shipped, all tasks"] = shown(score(EvalDecline(), everything))
    for name, (build, _) in GRIDS.items():
        best = tuned(name, first, thin=7 if chosen.quick else 1)
        results[f"{name} tuned on one half, the other half"] = shown(score(build(**best), second), best)
    targets = [
        Target(name="eval_decline: precision", value=default.precision, target=PUBLISHED["precision"]),
        Target(name="eval_decline: recall", value=default.recall, target=PUBLISHED["recall"]),
        Target(
            name="eval_decline: false positives",
            value=default.false_positive_rate,
            target=PUBLISHED["false_positive_rate"],
            at_least=False,
        ),
    ]
    return finish("detectors", chosen, results, targets, ["pyarrow"])


if __name__ == "__main__":
    raise SystemExit(main())
