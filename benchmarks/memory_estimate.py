"""The memory estimate against measured peaks: tiny runs tracked here, large ones as others have published them.

`python benchmarks/memory_estimate.py [--quick] [--json] [--check]`
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from autotune.preflight.memory import GIB, Estimate, estimate, native_workload
from autotune.preflight.memory.estimate import RUNTIME
from benchmarks.harness import Target, finish, options, progress
from benchmarks.published_memory import published
from trainer.config import build, compose, flatten

_BASE: Mapping[str, object] = {
    "trainer.total_steps": 2,
    "trainer.test_freq": 0,
    "model.warm_start.steps": 0,
    "model.hidden_size": 256,
    "model.intermediate_size": 768,
    "model.num_layers": 4,
    # Without a warm start the model never ends a response: every place of every sequence is used.
    "data.width": 9,
    "data.max_prompt_length": 10,
    "data.max_response_length": 22,
    "data.eval_size": 16,
    "trainer.train_batch_size": 96,
    "trainer.mini_batch_size": 96,
    "trainer.ppo_micro_batch_size_per_gpu": 96,
    "system.logging.progress_freq": 0,
}
_TINY: Mapping[str, Mapping[str, object]] = {
    "PPO in float32": {},
    "bfloat16": {"model.dtype": "bfloat16"},
    "gradient checkpointing": {"model.enable_gradient_checkpointing": True},
    "four micro-batches": {"trainer.ppo_micro_batch_size_per_gpu": 24},
    "LoRA": {"model.lora_rank": 8},
    "FULL_SHARD": {"trainer.fsdp_config.sharding_strategy": "FULL_SHARD"},
    "GRPO, no critic": {
        "algorithm": "grpo",
        "rollout.n": 4,
        "trainer.train_batch_size": 24,
        "trainer.mini_batch_size": 24,
    },
    "wide, few tokens": {
        "model.hidden_size": 512,
        "model.intermediate_size": 2048,
        "trainer.train_batch_size": 8,
        "trainer.mini_batch_size": 8,
    },
}
_QUICK = ("PPO in float32", "gradient checkpointing", "LoRA")
_ALLOWED = 0.15


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, compares, prints; returns the exit code."""
    chosen = options(__doc__ or "", arguments)
    rows = []
    for name in _QUICK if chosen.quick else _TINY:
        progress(f"measuring: {name}")
        overrides = {**_BASE, **_TINY[name]}
        rows.append(_row(name, _estimated(overrides), _tracked(overrides), "tracked allocations on this CPU"))
    rows += [_row(case.name, case.estimate, case.measured, case.source) for case in published()]
    errors = [row["error"] for row in rows]
    results = {
        "rows": rows,
        "largest_error": max(errors, key=abs),
        "mean_absolute_error": sum(abs(error) for error in errors) / len(errors),
    }
    target = Target(
        name="largest error of a peak, either way", value=abs(results["largest_error"]), target=_ALLOWED, at_least=False
    )
    return finish("memory_estimate", chosen, results, [target], ["torch", "transformers"])


def _estimated(overrides: Mapping[str, object]) -> int:
    config = flatten(dataclasses.asdict(build(compose("config", overrides))))
    work = native_workload(config, world=1, host=True)
    assert work is not None
    return _tensors(estimate(work))


def _tensors(found: Estimate) -> int:
    """The peak without the interpreter and its libraries, which no tensor holds."""
    return found.peak - sum(part.bytes for part in found.parts if part.name == RUNTIME)


def _tracked(overrides: Mapping[str, object]) -> int:
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, str(root / "benchmarks" / "tracked_memory.py"), json.dumps(overrides)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr)
    return int(json.loads(done.stdout.strip().splitlines()[-1])["peak"])


def _row(name: str, estimated: int, measured: int, source: str) -> dict[str, object]:
    return {
        "name": name,
        "estimate_gib": round(estimated / GIB, 4),
        "measured_gib": round(measured / GIB, 4),
        "error": round(estimated / measured - 1, 4),
        "source": source,
    }


if __name__ == "__main__":
    sys.exit(main())
