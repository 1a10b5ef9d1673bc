"""Records the runs that show what no run of the curve bank can: rules of the advice beyond the bank's space.

    OMP_NUM_THREADS=1 python benchmarks/advising/record_rules.py [NAME ...]

Each is a run of `python -m trainer` with the overrides of ``RUNS``; `rule_runs.json` keeps those overrides and the
metrics that rules read, with four significant digits. A run that is named is recorded again, the others are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
sys.path[:0] = [str(REPOSITORY)]

from trainer.config import compose  # noqa: E402

FILE = HERE / "rule_runs.json"
METRICS = (
    "reward/mean",
    "reward/std",
    "eval/reward",
    "kl/actor_ref",
    "actor/entropy",
    "actor/clip_fraction",
    "actor/grad_norm",
    "critic/explained_variance",
    "critic/loss",
    "response/length_mean",
    "perf/step_s",
    "perf/update_s",
    "perf/rollout_s",
)
"""All that a rule reads."""
Overrides = Mapping[str, float | int | str | bool]
_QUIET: Overrides = {"trainer.save_freq": 0, "system.num_threads": 1, "system.logging.progress_freq": 0}
_SHORT: Overrides = {"trainer.total_steps": 12}
_VLLM: Overrides = {**_SHORT, "rollout": "vllm", "rollout.gpu_memory_utilization": 0.05, "model.num_heads": 2}
RUNS: Mapping[str, Overrides] = {
    "four-passes": {"trainer.ppo_epochs": 4, "trainer.optim.lr": 3e-4},
    "eight-passes": {"trainer.ppo_epochs": 8, "trainer.optim.lr": 1e-4},
    "narrow-clip": {
        "trainer.ppo_epochs": 4,
        "trainer.optim.lr": 5e-4,
        "algorithm.clip_ratio": 0.005,
        "model.warm_start.steps": 60,
    },
    "short-responses": {**_SHORT, "data.max_response_length": 128},
    "engine-waits": {
        **_VLLM,
        "algorithm": "reinforce_pp",
        "data.max_response_length": 128,
        "model.warm_start.steps": 0,
        "rollout.max_batch_size": 8,
    },
    "engine-keeps-up": _VLLM,
}


def record(overrides: Overrides) -> dict[str, object]:
    """One run in a process and a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="advice-run-") as directory:
        config = compose(overrides={**_QUIET, **overrides})
        Path(directory, "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        subprocess.run([sys.executable, "-m", "trainer", "--trial"], cwd=directory, env=environment, check=True)
        lines = [json.loads(line) for line in Path(directory, "metrics.jsonl").read_text().splitlines()]
    points = [line for line in lines if "metrics" in line]
    curves = {name: [_short(point["metrics"].get(name)) for point in points] for name in METRICS}
    return {
        "overrides": dict(overrides),
        "steps": [point["step"] for point in points],
        "curves": {name: values for name, values in curves.items() if any(value is not None for value in values)},
    }


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def main() -> None:
    """Record what was named, or everything."""
    parser = argparse.ArgumentParser(description="Record runs for the rules of the advice.")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(RUNS)}; all without one")
    parser.add_argument("--out", type=Path, default=FILE, help="the file to write into")
    chosen = parser.parse_args()
    known = json.loads(chosen.out.read_text()) if chosen.out.is_file() else {}
    for name in chosen.names or RUNS:
        print(name, file=sys.stderr, flush=True)
        known[name] = record(RUNS[name])
        lines = (f" {json.dumps(key)}: {json.dumps(known[key])}" for key in RUNS if key in known)
        chosen.out.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
