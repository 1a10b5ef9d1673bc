"""Attempts of a program as the worker runs them: prepared by the backend, started by the guard, judged at the end."""

import sys
from pathlib import Path

import pytest

from autotune.backends import get_backend
from autotune.execution.metrics_tail import StepLine
from autotune.execution.trial_lock import try_lock
from autotune.execution.trial_process import TrialProcess
from autotune.spec.types import MetricsSpec, TrainerSpec

PROGRAM = Path(__file__).resolve().parents[1] / "support" / "program.py"
NAMES = {"eval/loss": "loss"}


class Attempts:
    """Runs attempts of one trial, one after the other, in the same directory."""

    def __init__(self, directory):
        self.directory = directory / "0000"
        self.directory.mkdir()
        self.number = 0

    def start(self, trainer, **changes):
        self.number += 1
        backend = get_backend(trainer.backend)
        description = backend.describe(trainer)
        config = {**description.config, **changes}
        command = backend.prepare(config, self.directory)
        lock = try_lock(self.directory)
        assert lock is not None
        return TrialProcess(command, self.directory, attempt=self.number, grace_s=5.0, lock=lock)

    def run(self, trainer, **changes):
        process = self.start(trainer, **changes)
        assert process.wait(60) is not None
        lines = process.read()
        steps = {line.step: dict(line.metrics) for line in lines if isinstance(line, StepLine)}
        expected = int(changes.get("steps", trainer.steps))
        outcome = process.outcome(last_step=max(steps, default=0), expected_steps=expected)
        return steps, outcome, [line for line in lines if not isinstance(line, StepLine)]


@pytest.fixture
def attempts(tmp_path):
    return Attempts(tmp_path)


@pytest.fixture
def program(tmp_path):
    """A trainer section for the test program."""

    def make(how="jsonl", *mishap, steps=4, metrics=None, names=None, **fields):
        metrics = metrics or MetricsSpec(read="jsonl", file="log.jsonl", names=names or NAMES)
        own = (sys.executable, str(PROGRAM), how, "{steps}", "{output_dir}/" + (metrics.file or "-"))
        return TrainerSpec(
            backend="command",
            config="",
            command=(*own, *map(str, mishap)),
            parameters={"lr": 0.1},
            metrics=metrics,
            workdir=str(tmp_path),
            steps=steps,
            **fields,
        )

    return make
