"""What goes wrong when Ray Tune's ASHA and Optuna searcher drive a search, and that it does not go wrong here.

The first test of each pair runs the peers' real classes. When one of them fails, the peer was repaired: good news.
"""

from __future__ import annotations

import contextlib
import logging
import math
from types import SimpleNamespace

import optuna
import pytest
from optuna.trial import TrialState as OptunaState

from autotune.search.book import MemoryBook
from autotune.search.types import EndKind, Launch, Outcome, Stop
from autotune.spec.types import Budget, Direction, FloatRange, Objective, Parameter, PrunerSpec, SamplerSpec, Start
from autotune.states import TrialState
from autotune.store import Store
from autotune.store.optuna_mirror import OptunaMirror
from autotune.store.optuna_storage import open_storage

tune = pytest.importorskip("ray.tune")

LR = {"lr": Parameter(path="lr", domain=FloatRange(low=1e-4, high=1e-2, log=True))}
NAN_METRICS = {"eval/reward": None}


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL)


def ray_asha(**options):
    from ray.tune.schedulers import ASHAScheduler

    return ASHAScheduler(metric="m", mode="max", max_t=100, grace_period=1, reduction_factor=2, **options)


def decision(scheduler, name, value, step=1):
    from ray.tune.experiment import Trial

    trial = SimpleNamespace(trial_id=name, status=Trial.RUNNING)
    scheduler.on_trial_add(None, trial)
    return scheduler.on_trial_result(None, trial, {"training_iteration": step, "m": value})


def ray_search(storage=None, metric="m", mode="max", **options):
    from ray.tune.search.optuna import OptunaSearch

    sampler = optuna.samplers.RandomSampler(seed=1)
    searcher = OptunaSearch(
        {"lr": tune.loguniform(1e-4, 1e-2)}, metric=metric, mode=mode, sampler=sampler, storage=storage, **options
    )
    return searcher, lambda: searcher._ot_study.trials


class Mirrored(MemoryBook):
    """A book that Optuna's study follows, as a driver's does."""

    def __init__(self, mirror):
        super().__init__()
        self._mirror = mirror

    def save(self, trial, points=(), events=()):
        super().save(trial, points, events)
        self._mirror.on_save(trial, points)


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    store = Store(url)
    store.migrate()
    store.close()
    return url


@pytest.fixture
def mirrored(url):
    made = []

    def make(objective=Objective(metric="eval/reward")):  # noqa: B008  a frozen value
        mirror = OptunaMirror(url, "ours", objective=objective, parameters=LR, steps=10)
        made.append(mirror)
        return Mirrored(mirror), lambda: optuna.load_study(study_name="ours", storage=open_storage(url)).trials

    yield make
    for mirror in made:
        mirror._storage.engine.dispose()


def options(**changes):
    return {
        "search": LR,
        "sampler": SamplerSpec(name="random", seed=2),
        "budget": Budget(trials=4, parallel=4),
        "start_from": (),
        **changes,
    }


# -- a value that is not finite at a rung --------------------------------------------------------------------------


def test_rays_asha_lets_a_trial_go_on_whose_value_at_the_rung_is_not_a_number():
    scheduler = ray_asha()
    for name in "abc":
        decision(scheduler, name, 0.9)
    assert decision(scheduler, "low", 0.1) == "STOP"
    assert decision(scheduler, "nan", math.nan) == "CONTINUE"


@pytest.mark.parametrize("mode", ["promote", "stop"])
def test_ours_does_not_let_it_pass(make_coordinator, mode):
    rung = PrunerSpec(name="asha", options={"min_steps": 1, "reduction_factor": 2, "mode": mode})
    coordinator = make_coordinator(**options(prune=(rung,)))
    running = [coordinator.next_trial(0.0).attempt for _ in range(4)]
    for attempt in running[:3]:
        coordinator.on_metrics(attempt, 1, {"eval/reward": 0.9}, 1.0, 1.0)
    verdict = coordinator.on_metrics(running[3], 1, NAN_METRICS, 1.0, 1.0)
    assert verdict.reason.pruner == "asha"
    assert "not finite" in verdict.reason.text


# -- a trial that was stopped early --------------------------------------------------------------------------------


def test_rays_searcher_tells_optuna_that_a_stopped_trial_is_complete():
    searcher, trials = ray_search()
    for name, value in (("good", 0.9), ("stopped", 0.95)):
        searcher.suggest(name)
        searcher.on_trial_complete(name, {"training_iteration": 1 if name == "stopped" else 100, "m": value})
    assert [trial.state for trial in trials()] == [OptunaState.COMPLETE, OptunaState.COMPLETE]
    assert searcher._ot_study.best_trial.number == 1  # after one step of a hundred


def test_ours_is_pruned_there_and_never_the_best(make_coordinator, mirrored):
    book, trials = mirrored()
    ceiling = PrunerSpec(name="kl_ceiling", options={"above": 0.1, "patience": 1})
    coordinator = make_coordinator(book, **options(prune=(ceiling,), budget=Budget(trials=2, parallel=2)))
    good, bad = (coordinator.next_trial(0.0).attempt for _ in range(2))
    verdict = coordinator.on_metrics(bad, 1, {"eval/reward": 0.95, "kl/actor_ref": 0.5}, 1.0, 1.0)
    assert isinstance(verdict, Stop)
    coordinator.on_end(bad, Outcome(kind=EndKind.STOPPED, last_step=1), 2.0)
    coordinator.on_metrics(good, 10, {"eval/reward": 0.9}, 9.0, 3.0)
    coordinator.on_end(good, Outcome(kind=EndKind.FINISHED, last_step=10), 4.0)
    assert [trial.state for trial in trials()] == [OptunaState.COMPLETE, OptunaState.PRUNED]
    assert coordinator.best().number == 0


# -- a final value that is not a number ----------------------------------------------------------------------------


def test_rays_searcher_leaves_a_trial_running_for_ever_whose_final_value_is_not_a_number():
    searcher, trials = ray_search()
    searcher.suggest("a")
    searcher.on_trial_complete("a", {"training_iteration": 100, "m": math.nan})
    assert [trial.state for trial in trials()] == [OptunaState.RUNNING]


def test_ours_is_infeasible_and_ended_in_optunas_study(make_coordinator, mirrored):
    book, trials = mirrored()
    coordinator = make_coordinator(book, **options(budget=Budget(trials=1)))
    attempt = coordinator.next_trial(0.0).attempt
    coordinator.on_metrics(attempt, 10, NAN_METRICS, 1.0, 1.0)
    coordinator.on_end(attempt, Outcome(kind=EndKind.FINISHED, last_step=10), 2.0)
    assert coordinator.trials[0].state is TrialState.INFEASIBLE
    (found,) = trials()
    assert found.state is OptunaState.PRUNED
    assert any(violation > 0 for violation in found.constraints.values())


# -- several objectives --------------------------------------------------------------------------------------------


def test_rays_searcher_loses_the_intermediate_values_of_several_objectives_and_zombies_on_a_missing_one():
    searcher, trials = ray_search(metric=["m", "n"], mode=["max", "min"])
    searcher.suggest("a")
    searcher.on_trial_result("a", {"training_iteration": 1, "m": 0.1, "n": 0.2})
    assert trials()[0].intermediate_values == {}
    with contextlib.suppress(KeyError, ValueError):
        searcher.on_trial_complete("a", {"training_iteration": 2, "m": 0.1})
    assert trials()[0].state is OptunaState.RUNNING


def test_ours_keeps_them_prunes_on_them_and_ends_what_lacks_one(make_coordinator, mirrored):
    goals = Objective(metric="eval/reward", also=(Objective(metric="length", direction=Direction.MINIMIZE),))
    book, trials = mirrored(goals)
    rung = PrunerSpec(name="asha", options={"min_steps": 1, "reduction_factor": 2, "mode": "stop", "protect_top": 0})
    coordinator = make_coordinator(book, **options(objective=goals, prune=(rung,)))
    running = [coordinator.next_trial(0.0).attempt for _ in range(4)]
    values = [(0.9, 10.0), (0.8, 20.0), (0.1, 90.0)]
    verdicts = [
        coordinator.on_metrics(attempt, 1, {"eval/reward": reward, "length": length}, 1.0, 1.0)
        for attempt, (reward, length) in zip(running, values, strict=False)
    ]
    assert isinstance(verdicts[2], Stop)
    assert book.load().curves[2][0].metrics == {"eval/reward": 0.1, "length": 90.0}
    coordinator.on_metrics(running[3], 10, {"eval/reward": 0.5}, 1.0, 1.0)
    coordinator.on_end(running[3], Outcome(kind=EndKind.FINISHED, last_step=10), 2.0)
    assert coordinator.trials[3].state is TrialState.FAILED
    assert "length" in coordinator.trials[3].error_message
    assert trials()[3].state is OptunaState.FAIL


# -- a second start on the same study ------------------------------------------------------------------------------


def test_rays_searcher_enqueues_the_starts_again_and_leaves_zombies_when_a_search_goes_on():
    storage = optuna.storages.InMemoryStorage()
    starts = [{"lr": 1e-3}]
    searcher, _ = ray_search(storage, study_name="one", points_to_evaluate=starts)
    searcher.suggest("a")  # the search dies while it runs
    again, trials = ray_search(storage, study_name="one", points_to_evaluate=starts)
    assert again.suggest("b") == {"lr": 1e-3}
    assert [trial.state for trial in trials()] == [OptunaState.RUNNING, OptunaState.RUNNING]


def test_ours_goes_on_with_the_interrupted_start_and_proposes_it_once(make_coordinator):
    book, start = MemoryBook(), Start(label="start-1", values={"lr": 1e-3})
    first = make_coordinator(book, **options(start_from=(start,), budget=Budget(trials=2, parallel=1)))
    assert isinstance(first.next_trial(0.0), Launch)
    second = make_coordinator(book, fence="u", **options(start_from=(start,), budget=Budget(trials=2, parallel=1)))
    second.recover(1.0)
    launch = second.next_trial(1.0)
    assert (launch.attempt.trial, launch.attempt.number) == (0, 2)
    second.on_metrics(launch.attempt, 10, {"eval/reward": 0.5}, 1.0, 2.0)
    second.on_end(launch.attempt, Outcome(kind=EndKind.FINISHED, last_step=10), 2.0)
    other = second.next_trial(3.0)
    assert other.attempt.trial == 1
    assert second.trials[1].source == "sampler"
    assert [trial.source for trial in second.trials.values()].count("start-1") == 1
