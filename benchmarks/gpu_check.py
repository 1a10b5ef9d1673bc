"""A few PPO steps on one NVIDIA GPU: speed, memory against the estimate, and whether CPU and GPU compute the same.

`python benchmarks/gpu_check.py [--device cuda|cpu] [--quick] [--out FILE] [--json] [--check]`

Trains a randomly initialised model of 334 million parameters in bfloat16 with FSDP2 through the trainer, in under five
minutes. Needs torch and transformers only. Without a GPU it says so, also in the file, and runs nothing. With
`--device cpu --quick` a tiny model takes the same way in seconds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from autotune.preflight.memory import GIB, estimate, native_workload
from autotune.preflight.memory.estimate import RUNTIME
from benchmarks.gpu_agreement import disagreements
from benchmarks.harness import Target, finish, progress
from benchmarks.plain_config import flat, plain_config
from benchmarks.random_model import save_random_model

RESULTS = Path(__file__).resolve().parent / "results" / "gpu_check.json"
_STEPS = 4
_COMMON: Mapping[str, object] = {
    "trainer.total_steps": _STEPS,
    "trainer.test_freq": 0,
    "trainer.save_freq": 0,
    "trainer.optim.lr": 1.0e-5,
    "trainer.optim.critic_lr": 1.0e-4,
    "data.width": 9,
    "data.max_prompt_length": 10,
    "system.determinism": False,
}
_LARGE: Mapping[str, object] = {
    "model.dtype": "bfloat16",
    "model.enable_gradient_checkpointing": False,
    "data.max_response_length": 502,
    "data.eval_size": 8,
    "trainer.train_batch_size": 64,
    "trainer.mini_batch_size": 64,
    "trainer.ppo_micro_batch_size_per_gpu": 16,
}
_LARGE_MODEL = {"hidden": 1024, "inner": 4096, "layers": 16, "heads": 16, "vocab": 32000}
_TINY: Mapping[str, object] = {
    "model.dtype": "float32",
    "data.max_response_length": 12,
    "data.eval_size": 4,
    "trainer.train_batch_size": 8,
    "trainer.mini_batch_size": 8,
    "trainer.ppo_micro_batch_size_per_gpu": 4,
}
_TINY_MODEL = {"hidden": 64, "inner": 128, "layers": 2, "heads": 4, "vocab": 512}
_AGREE = 2e-3
_ESTIMATE = 0.15


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the check; returns the exit code."""
    chosen = _options(arguments)
    import torch

    if chosen.device == "cuda" and not torch.cuda.is_available():
        return _without_gpu(chosen, f"torch {torch.__version__} finds no NVIDIA GPU on this machine")
    name = torch.cuda.get_device_name() if chosen.device == "cuda" else "CPU"
    progress(f"comparing the algorithms on the CPU and on {name}")
    differences = disagreements(torch.device(chosen.device))
    results = {"ran": True, "device": name, **_trained(chosen.device, quick=chosen.quick)}
    results["largest_relative_difference"] = differences
    targets = [
        Target(name="CPU and device agree", value=max(differences.values()), target=_AGREE, at_least=False),
        Target(name="steps done", value=float(results["steps"]), target=float(_STEPS)),
        Target(name="every metric finite", value=float(results["all_finite"]), target=1.0),
    ]
    if chosen.device == "cuda":
        error = abs(float(results["estimate_error"]))
        targets.append(Target(name="error of the memory estimate", value=error, target=_ESTIMATE, at_least=False))
    if chosen.out is not None:
        _write(chosen.out, results)
    return finish("gpu_check", chosen, results, targets, ["torch", "transformers"])


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    from benchmarks.harness import parser

    wanted = parser(__doc__.partition("\n")[0] if __doc__ else "")
    wanted.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    wanted.add_argument("--out", type=Path, help="file for the figures (default for a GPU: benchmarks/results)")
    chosen = wanted.parse_args(arguments)
    if chosen.out is None and chosen.device == "cuda":
        chosen.out = RESULTS
    return chosen


def _trained(device: str, *, quick: bool) -> dict[str, object]:
    """Figures of the training run."""
    from trainer.config import build
    from trainer.loop import run_session
    from trainer.signals import StopFlag

    small = quick or device == "cpu"
    with tempfile.TemporaryDirectory() as model, tempfile.TemporaryDirectory() as directory:
        save_random_model(Path(model), **(_TINY_MODEL if small else _LARGE_MODEL))
        chosen = {**_COMMON, **(_TINY if small else _LARGE), "model.path": model, "system.device": device}
        values = plain_config({"model": "hf"}, chosen)
        work = native_workload(flat(values), world=1, host=device == "cpu")
        assert work is not None
        progress(f"training {work.actor.parameters / 1e6:.1f}M parameters for {_STEPS} steps")
        started = time.perf_counter()
        run_session(build(values), Path(directory), StopFlag())
        seconds = time.perf_counter() - started
        lines = [json.loads(line) for line in (Path(directory) / "metrics.jsonl").read_text().splitlines()]
    found = estimate(work)
    tensors = found.peak - sum(part.bytes for part in found.parts if part.name == RUNTIME)
    steps = [line["metrics"] for line in lines if line.get("step", 0) > 0 and "metrics" in line]
    later = steps[1:]  # the first one also warms the device up
    peak = float(steps[-1]["perf/peak_memory_gb"])
    expected = (tensors if device == "cuda" else found.peak) / GIB
    return {
        "parameters": work.actor.parameters,
        "steps": len(steps),
        "seconds": round(seconds, 2),
        "tokens_per_s": _median(later, "perf/tokens_per_s"),
        "rollout_s": _median(later, "perf/rollout_s"),
        "update_s": _median(later, "perf/update_s"),
        "mfu": _median(later, "perf/mfu"),
        "peak_memory_gib": peak,
        "estimate_gib": expected,
        "estimate_error": expected / peak - 1,
        "estimate_parts_gib": {part.name: round(part.bytes / GIB, 4) for part in found.largest},
        "all_finite": all(value is not None and math.isfinite(value) for step in steps for value in step.values()),
    }


def _median(steps: Sequence[Mapping[str, float]], name: str) -> float:
    return statistics.median(step[name] for step in steps)


def _without_gpu(chosen: argparse.Namespace, why: str) -> int:
    """Says that nothing was run; a record of a machine with a GPU stays."""
    print(f"{why}: nothing was run. `--device cpu --quick` takes the same way with a tiny model.", file=sys.stderr)
    if chosen.out is not None and not _has_figures(chosen.out):
        _write(chosen.out, {"ran": False, "why": why})
    return finish("gpu_check", chosen, {"ran": False, "why": why}, [], ["torch", "transformers"])


def _has_figures(path: Path) -> bool:
    try:
        return json.loads(path.read_text())["results"]["ran"] is True
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _write(path: Path, results: Mapping[str, object]) -> None:
    import torch

    from benchmarks.harness import machine

    document = {
        "name": "gpu_check",
        "command": "python benchmarks/gpu_check.py",
        "machine": machine(),
        "torch": torch.__version__,
        "results": dict(results),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.exit(main())
