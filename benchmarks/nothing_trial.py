"""A trial that does nothing: one evaluation, a result, and the end. Stands where a backend's trainer would."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from autotune.backends.base import Command, Description
from autotune.errors import Problem
from autotune.spec.types import TrainerSpec
from autotune.spec.values import FlatConfig

PROGRAM = """
import json
config = json.load(open("config.yaml"))
with open("metrics.jsonl", "a") as metrics:
    metrics.write(json.dumps({"step": 1, "time": 0.0, "metrics": {"eval/reward": config["x"] - config["y"]}}) + "\\n")
with open("result.json", "w") as result:
    json.dump({"status": "finished", "last_step": 1, "peak_memory_gb": 0.0, "error": None}, result)
"""


class NothingBackend:
    """Keeps the trial process contract and nothing else."""

    name = "nothing"

    def describe(self, trainer: TrainerSpec) -> Description:
        """Two numbers, one step."""
        config: FlatConfig = {"x": 0.5, "y": 0.5, "steps": 1, "seed": 0, **trainer.overrides}
        metrics = {"eval/reward": "x - y"}
        return Description(config=config, metrics=metrics, steps=1, steps_path="steps", seed_path="seed")

    def check(self, config: FlatConfig) -> tuple[Problem, ...]:  # noqa: ARG002  anything goes
        """Every configuration works."""
        return ()

    def prepare(self, config: FlatConfig, directory: Path) -> Command:
        """Writes the configuration and starts an interpreter without site packages."""
        (directory / "config.yaml").write_text(json.dumps(dict(config)))
        return Command(argv=[sys.executable, "-I", "-S", "-c", PROGRAM])


BACKEND = NothingBackend()
