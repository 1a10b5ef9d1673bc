"""A population of real runs: Ray, processes, training. The worst goes on from the best one's checkpoint."""

from __future__ import annotations

import pytest

from autotune.backends import get_backend
from autotune.clock import SystemClock
from autotune.execution import ray_tune
from autotune.execution.ray_pbt import RayExplorer
from autotune.search.book import MemoryBook
from autotune.search.coordinator import Coordinator
from autotune.spec.types import (
    Budget,
    FloatRange,
    Objective,
    Parameter,
    Population,
    Resources,
    Retry,
    SamplerSpec,
    Space,
    Start,
    TrainerSpec,
)
from autotune.states import TrialState

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
LR = "trainer.optim.lr"
STEPS, INTERVAL = 8, 4


def test_the_worst_member_goes_on_at_the_level_of_the_best_one_with_values_of_its_own(no_strays):
    overrides = {"data": "digits", "model": "tiny", "trainer.total_steps": STEPS, "system.num_threads": 1}
    trainer = TrainerSpec(overrides=overrides)
    space = Space(
        name="population",
        trainer=trainer,
        resources=Resources(),
        search={LR: Parameter(path=LR, domain=FloatRange(low=1e-9, high=1e-2, log=True))},
        # The KL tells the members apart in a few steps: what does not learn stays at 0.
        objective=Objective(metric="kl/actor_ref"),
        sampler=SamplerSpec(seed=3),
        budget=Budget(trials=4, parallel=2),
        retry=Retry(),
        population=Population(interval=INTERVAL),
        start_from=tuple(Start(label=f"start-{n}", values={LR: lr}) for n, lr in enumerate((1e-9, 1e-4, 2e-4, 1e-3))),
    )
    base = get_backend("native").describe(trainer).config
    explorer = RayExplorer(space.population, space.search)
    book = MemoryBook()
    coordinator = Coordinator(space, base, book, fence="f", total_steps=STEPS, explorer=explorer)
    ray_tune.run_on_ray(
        coordinator,
        backend="native",
        job_dir=no_strays,
        resources=Resources(cpus=1),
        parallel=2,
        steps=STEPS,
        grace_s=20.0,
        address=None,
        clock=SystemClock(),
        on_idle=lambda: None,
    )
    trials = coordinator.trials
    assert [(trial.state, trial.attempt.number) for trial in trials.values()] == [(TrialState.COMPLETED, 2)] * 4
    (exploited,) = [event for event in book.events if event.kind == "trial.exploited"]
    assert (exploited.trial, exploited.data["from"], exploited.data["step"]) == (0, 3, INTERVAL)
    curves = {number: {point.step: point.metrics for point in book.load().curves[number]} for number in (0, 3)}
    loser, winner = curves[0], curves[3]
    assert list(loser) == list(range(STEPS + 1))
    assert all(abs(loser[step]["kl/actor_ref"]) < 1e-6 for step in range(1, INTERVAL + 1))
    # Both measure the same policy on the same samples before they go ways of their own.
    assert loser[INTERVAL + 1]["kl/actor_ref"] == pytest.approx(winner[INTERVAL + 1]["kl/actor_ref"], rel=1e-4)
    assert loser[INTERVAL + 1]["kl/actor_ref"] > 1e-4
    assert loser[INTERVAL + 1]["actor/lr"] == pytest.approx(trials[0].params[LR])
    assert trials[0].params[LR] not in (1e-9, trials[3].params[LR])
    assert "resuming after step 4" in (no_strays / "trials" / "0000" / "attempt_2.log").read_text()
