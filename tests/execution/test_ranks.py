"""A native trial on two ranks, started, followed and stopped as a worker does it with two GPUs."""

import json

import pytest

from autotune.backends import get_backend
from autotune.backends.base import Command, Distributed
from autotune.execution.backend_path import load_backend
from autotune.execution.metrics_tail import StepLine
from autotune.execution.worker import Job, Worker
from autotune.search.types import Attempt, EndKind, Launch
from autotune.spec.types import TrainerSpec

OVERRIDES = {"data": "digits", "model": "tiny", "trainer.total_steps": 3, "trainer.test_freq": 0}


def follow(one, launch, until=lambda steps: False):
    one.begin(launch)
    steps, outcome, stopped = [], None, False
    while outcome is None:
        report = one.step()
        steps += [line.step for line in report.lines if isinstance(line, StepLine)]
        outcome = report.outcome
        if not stopped and outcome is None and until(steps):
            one.request_stop()
            stopped = True
    return steps, outcome


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_trial_with_two_gpus_is_two_ranks_that_end_together(no_strays):
    config = dict(get_backend("native").describe(TrainerSpec(overrides=OVERRIDES)).config)
    one = Worker(Job(backend="native", trials_dir=no_strays, steps=3, grace_s=60.0, ranks=2), load_backend)
    steps, outcome = follow(one, Launch(attempt=Attempt(trial=0, number=1, token="t"), config=config, directory="0000"))
    assert (outcome.kind, outcome.last_step) == (EndKind.FINISHED, 3), outcome.message
    assert steps == [0, 1, 2, 3]
    result = json.loads((no_strays / "0000" / "result.json").read_text())
    assert result["status"] == "finished"
    long = {**config, "trainer.total_steps": 100_000}
    other = Launch(attempt=Attempt(trial=1, number=1, token="t"), config=long, directory="0001")
    long_worker = Worker(
        Job(backend="native", trials_dir=no_strays, steps=100_000, grace_s=60.0, ranks=2), load_backend
    )
    steps, outcome = follow(long_worker, other, until=lambda steps: len(steps) > 2)
    assert outcome.kind is EndKind.STOPPED, outcome.message
    assert list((no_strays / "0001" / "checkpoints").glob("step_*"))


def test_the_launcher_is_put_before_the_trainer():
    backend = get_backend("native")
    assert isinstance(backend, Distributed)
    command = backend.on_ranks(Command(argv=("python", "-m", "trainer", "--trial"), env={"A": "1"}), 4)
    assert list(command.argv) == [
        *["python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"],
        *["-m", "trainer", "--trial"],
    ]
    assert command.env == {"A": "1"}


@pytest.mark.parametrize("name", ["verl", "command"])
def test_what_launches_its_own_processes_is_left_alone(name):
    assert not isinstance(get_backend(name), Distributed)
