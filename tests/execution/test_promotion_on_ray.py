"""A trial is paused at a rung, frees its slot, and goes on from its checkpoint when it is promoted: real processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autotune.clock import SystemClock
from autotune.execution import ray_tune
from autotune.search.book import MemoryBook
from autotune.search.coordinator import Coordinator
from autotune.spec.types import (
    Budget,
    FloatRange,
    Objective,
    Parameter,
    PrunerSpec,
    Resources,
    Retry,
    SamplerSpec,
    Space,
    Start,
    TrainerSpec,
)
from autotune.states import TrialState

pytestmark = pytest.mark.slow
STEPS = 8


def test_a_promoted_trial_goes_on_from_its_checkpoint_with_the_curve_of_an_uninterrupted_one(no_strays, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(Path(__file__).with_name("support")), *sys.path])
    space = Space(
        name="rungs",
        trainer=TrainerSpec(),
        resources=Resources(),
        search={"bonus": Parameter(path="bonus", domain=FloatRange(low=0.0, high=1.0))},
        objective=Objective(metric="reward/mean"),
        sampler=SamplerSpec(),
        budget=Budget(trials=2),
        retry=Retry(),
        prune=(PrunerSpec(name="asha", options={"min_steps": 2, "reduction_factor": 2}),),
        start_from=(Start(label="start-1", values={"bonus": 1.0}), Start(label="start-2", values={"bonus": 0.5})),
    )
    book = MemoryBook()
    base = {"steps": STEPS, "step_s": 0.4, "bonus": 0.0}
    coordinator = Coordinator(space, base, book, fence="f", total_steps=STEPS)
    ray_tune.run_on_ray(
        coordinator,
        backend="process_backend:BACKEND",
        job_dir=no_strays,
        resources=Resources(cpus=1),
        parallel=1,
        steps=STEPS,
        grace_s=5.0,
        address=None,
        clock=SystemClock(),
        on_idle=lambda: None,
    )
    winner, loser = coordinator.trials[0], coordinator.trials[1]
    assert (winner.state, winner.attempt.number) == (TrialState.COMPLETED, 2)
    assert (loser.state, loser.reason.numbers["rank"]) == (TrialState.PRUNED, 2)
    curve = [(point.step, point.metrics["reward/mean"]) for point in book.load().curves[0]]
    assert curve == [(step, pytest.approx(step / 10 + 1.0)) for step in range(1, STEPS + 1)]
    resumed = (no_strays / "trials" / "0000" / "attempt_2.log").read_text()
    after = int(resumed.split("starts after step ")[1].split()[0])
    assert 2 <= after < STEPS
