import itertools
import time

import pytest
from fake_coordinator import FakeCoordinator
from hypothesis import given
from hypothesis import strategies as st

from autotune.clock import ManualClock
from autotune.execution import synthetic_curves as ppo
from autotune.execution.replay import RecordedRun, Replay
from autotune.execution.simulated import Failure, StuckError, simulate
from autotune.search.book import MemoryBook
from autotune.search.coordinator import Coordinator
from autotune.search.types import EndKind, Wait
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
    TrainerSpec,
)


def flat(config, seed):
    return ((config.get("s", 1.0), {"reward/mean": float(seed)}) for _ in itertools.count())


def run(coordinator, curve=flat, parallel=2, steps=5):
    return simulate(coordinator, curve, parallel=parallel, clock=ManualClock(), steps=steps)


def test_trials_run_side_by_side_on_the_virtual_clock():
    coordinator = FakeCoordinator([{"s": 1.0}] * 4)
    result = run(coordinator)
    assert (result.seconds, result.cost_s) == (10.0, 20.0)
    assert all(outcome.kind is EndKind.FINISHED and outcome.last_step == 5 for _, _, outcome in coordinator.ends)


def test_a_stopped_trial_frees_its_slot_at_once():
    coordinator = FakeCoordinator([{"s": 1.0}] * 2, parallel=1, stop_at={0: 2})
    result = run(coordinator, parallel=1)
    assert result.seconds == 7.0
    assert coordinator.end_of(0)[0].kind is EndKind.STOPPED
    assert [event.kind for event in result.events if event.attempt.trial == 0] == [
        "launch",
        "step",
        "step",
        "stop",
        "end",
    ]


def crashing(config, seed):
    yield 1.0, {"a": 1.0}
    yield 1.0, {"a": 2.0}
    yield Failure(kind=EndKind.CRASH, seconds=0.5, message="bang")
    yield from ((1.0, {"a": 3.0}) for _ in itertools.count())


def test_a_failure_strikes_once_and_the_next_attempt_goes_on_after_the_last_step():
    coordinator = FakeCoordinator([{}])
    result = run(coordinator, crashing)
    assert coordinator.steps[0] == [1, 2, 3, 4, 5]
    assert [(number, outcome.kind) for _, number, outcome in coordinator.ends] == [
        (1, EndKind.CRASH),
        (2, EndKind.FINISHED),
    ]
    assert result.seconds == 5.5


def test_a_coordinator_that_waits_for_ever_is_reported():
    coordinator = FakeCoordinator([])
    coordinator.next_trial = lambda now: Wait()
    with pytest.raises(StuckError):
        simulate(coordinator, flat, parallel=1, clock=ManualClock(), steps=1, max_idle=10)


@given(
    seconds=st.lists(st.floats(0.1, 9.0), min_size=1, max_size=12),
    parallel=st.integers(1, 5),
    stops=st.dictionaries(st.integers(0, 11), st.integers(1, 5)),
)
def test_the_same_simulation_twice_gives_the_same_events_and_never_too_many_at_a_time(seconds, parallel, stops):
    def once():
        coordinator = FakeCoordinator([{"s": s} for s in seconds], parallel=99, stop_at=stops)
        return coordinator, run(coordinator, parallel=parallel)

    first, again = once(), once()
    assert first[1] == again[1]
    assert first[0].most <= parallel
    assert len(first[0].ends) == len(seconds)
    assert [event.at for event in first[1].events] == sorted(event.at for event in first[1].events)


def test_two_hundred_trials_of_a_hundred_steps_take_a_moment():
    began = time.process_time()
    run(FakeCoordinator([{}] * 200, parallel=8), ppo.ppo_like, parallel=8, steps=100)
    assert time.process_time() - began < 5


def curve(steps, seed=0, **config):
    return list(itertools.islice(ppo.ppo_like(config, seed), steps))


def final(steps=200, **config):
    values = [item[1]["eval/reward"] for item in curve(steps, **config) if not isinstance(item, Failure)]
    return sum(values[-5:]) / 5


def test_curves_are_the_same_for_the_same_configuration_and_seed_only():
    config = {ppo.LR: 3e-6}
    assert curve(20, 1, **config) == curve(20, 1, **config)
    assert curve(20, 1, **config) != curve(20, 2, **config)


def test_the_best_learning_rate_lies_inside_the_range():
    timid, good, bold = (final(**{ppo.LR: lr, ppo.KL_COEF: 1e-3}) for lr in (3e-8, 1e-6, 1e-5))
    assert good > timid + 0.2
    assert good > bold + 0.2


def test_kl_grows_with_the_update_and_is_held_back_by_its_coefficient():
    def kl(**config):
        return curve(100, **config)[-1][1]["kl/actor_ref"]

    assert kl(**{ppo.LR: 3e-6}) > kl(**{ppo.LR: 1e-6})
    assert kl(**{ppo.CLIP_RATIO: 0.3}) > kl(**{ppo.CLIP_RATIO: 0.1})
    assert kl(**{ppo.KL_COEF: 1e-1}) < kl(**{ppo.KL_COEF: 1e-4})


def test_huge_updates_become_non_finite_and_huge_micro_batches_run_out_of_memory():
    broken = curve(100, **{ppo.LR: 1e-4})
    assert broken[-1].kind is EndKind.NON_FINITE
    assert broken[-2][1]["actor/loss"] is None
    assert [item.kind for item in curve(100, **{ppo.MICRO_BATCH: 128})] == [EndKind.OUT_OF_MEMORY]


def test_a_search_of_200_trials_on_64_slots_over_recorded_runs_takes_seconds_and_is_the_same_every_time():
    def search():
        domains = {"lr": FloatRange(low=1e-4, high=1e-2, log=True), "clip": FloatRange(low=0.1, high=0.4)}
        runs = [
            RecordedRun(
                name=str(number),
                params={"lr": 1e-4 * 100 ** (number / 31), "clip": 0.1 + 0.3 * (number * 7 % 32) / 31},
                steps=[
                    (1.0 + number % 5, {"reward/mean": (1 - abs(number - 20) / 32) * step}) for step in range(1, 41)
                ],
            )
            for number in range(32)
        ]
        space = Space(
            name="recorded",
            trainer=TrainerSpec(),
            resources=Resources(),
            search={path: Parameter(path=path, domain=domain) for path, domain in domains.items()},
            objective=Objective(metric="reward/mean"),
            sampler=SamplerSpec(name="random", seed=3),
            prune=(PrunerSpec(name="asha", options={"min_steps": 4}),),
            budget=Budget(trials=200, parallel=64),
            retry=Retry(),
            start_from=(),
        )
        coordinator = Coordinator(space, {}, MemoryBook(), fence="f", total_steps=40)
        result = simulate(coordinator, Replay(runs, domains).curve, parallel=64, clock=ManualClock(), steps=40)
        return result, coordinator.best()

    started = time.process_time()
    result, best = search()
    assert time.process_time() - started < 10
    assert best.value == max(best.value, 39.0)
    running = at_most = 0
    for event in result.events:
        running += {"launch": 1, "end": -1}.get(event.kind, 0)
        at_most = max(at_most, running)
    assert at_most == 64
    assert search() == (result, best)
