"""What the searches are measured with: the meter, the peers behind our port, the figures, the detectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from contest.detection import Score, fires_at, score
from contest.measures import area, bootstrap, mean_interval, ratio_interval, regret_at, seconds_to, steps_to
from contest.meter import Found, Meter, play
from contest.ours import default, ours
from contest.peer_ray import ray_peer
from contest.peers import optuna_peer
from contest.problem import Problem
from curve_bank.bank import OBJECTIVE, Run
from curve_bank.design import SPACE
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.execution.replay import RecordedRun, Replay
from autotune.search.pruners import EvalDecline, KlCeiling
from autotune.search.types import EndKind
from autotune.spec.loader import load_space
from autotune.spec.starter import Wishes, first_space
from autotune.spec.types import Choice, FloatRange, IntRange

STEPS = 9
DOMAINS = {
    "lr": FloatRange(low=1e-4, high=1e-2, log=True),
    "epochs": IntRange(low=1, high=2),
    "batch": Choice(options=(32, 64)),
}


def recorded(number: int) -> RecordedRun:
    lr = 1e-4 * 100 ** (number / 11)
    top = 1.0 - abs(math.log10(lr) + 3.0) / 2
    curve = [(2.0, {OBJECTIVE: top * step / STEPS}) for step in range(1, STEPS + 1)]
    broken = number == 11
    return RecordedRun(
        name=str(number),
        params={"lr": lr, "epochs": 1 + number % 2, "batch": (32, 64)[number // 6]},
        steps=curve[:3] if broken else curve,
        end=EndKind.NON_FINITE if broken else EndKind.FINISHED,
    )


@pytest.fixture(scope="module")
def task() -> Problem:
    runs = [recorded(number) for number in range(12)]
    best = max(run.steps[-1][1][OBJECTIVE] or 0.0 for run in runs[:-1])
    replay = Replay(runs, DOMAINS)
    return Problem(task="small", domains=DOMAINS, replay=replay, steps=STEPS, best=best, start=0.0, smooth=1)


CONTESTANTS = {
    "ours": ours,
    "random": lambda *a, **k: optuna_peer(*a, **k, sampler="random", pruner="none"),
    "hyperband": lambda *a, **k: optuna_peer(*a, **k, sampler="tpe", pruner="hyperband"),
    "ray": ray_peer,
}


def searched(task: Problem, name: str, seed: int = 0, cap: int = 200) -> Meter:
    return play(CONTESTANTS[name](task, seed, trials=200, parallel=3), task, parallel=3, cap=cap)


@pytest.mark.parametrize("name", list(CONTESTANTS))
def test_everybody_spends_the_same_and_finds_something(task: Problem, name: str) -> None:
    meter = searched(task, name)
    assert 200 <= meter.steps <= 203
    assert meter.found
    assert all(0.0 <= one.value <= task.best for one in meter.found)
    assert [one.steps for one in meter.found] == sorted(one.steps for one in meter.found)
    assert meter.seconds == pytest.approx(2.0 * meter.steps)


@pytest.mark.parametrize("name", list(CONTESTANTS))
def test_the_same_seed_searches_the_same(task: Problem, name: str) -> None:
    first, again, other = searched(task, name), searched(task, name), searched(task, name, seed=1)
    assert (first.found, first.plays) == (again.found, again.plays)
    assert first.plays != other.plays


def test_a_search_without_pruning_runs_everything_to_its_end(task: Problem) -> None:
    meter = searched(task, "random", cap=100_000)
    assert meter.launched == 200
    broken = [number for number, run in meter.plays.items() if run == "11"]
    assert all(meter.reached[number] == (3 if number in broken else STEPS) for number in meter.plays)
    assert len(meter.found) == 200 - len(broken)


def test_peers_stop_early_what_is_worse(task: Problem) -> None:
    for name in ("hyperband", "ray"):
        meter = searched(task, name, cap=600)
        assert len(meter.found) < 0.7 * meter.launched


FOUND = [Found(steps=10, seconds=20.0, value=0.3), Found(steps=30, seconds=50.0, value=0.8)]


def test_compute_to_the_target_is_that_of_the_first_trial_that_reaches_it() -> None:
    assert steps_to(FOUND, 0.8, 99) == (30, True)
    assert steps_to(FOUND, 0.81, 99) == (99, False)
    assert seconds_to(FOUND, 0.2, 99.0) == 20.0
    assert seconds_to(FOUND, 0.9, 99.0) == 99.0


def test_regret_falls_from_the_untrained_model_to_the_best_found() -> None:
    regrets = regret_at(FOUND, 0.9, 0.1, [5, 10, 29, 30, 100])
    assert regrets == pytest.approx([0.8, 0.6, 0.6, 0.1, 0.1])
    assert area(regrets) == pytest.approx(0.44)


@settings(deadline=None, max_examples=10)
@given(st.lists(st.floats(1, 1000), min_size=5, max_size=30))
def test_an_interval_holds_its_mean_and_a_ratio_against_oneself_is_one(values: Sequence[float]) -> None:
    mean, (low, high) = mean_interval(values)
    assert low - 1e-6 <= mean <= high + 1e-6
    assert ratio_interval(values, values) == (1.0, (1.0, 1.0))
    assert bootstrap(len, len(values), 0) == (len(values), len(values))


def run(name: str, gold: Sequence[float], paid: Sequence[float], kl: Sequence[float]) -> Run:
    rows = zip(gold, paid, kl, strict=True)
    names = (OBJECTIVE, "reward/mean", "kl/actor_ref")
    return Run(
        name=name,
        task="exploitable",
        number=0,
        seed=0,
        params={path: axis.at(0.5) for path, axis in SPACE.items()},
        status="finished",
        error_kind="",
        error_message="",
        points=[(step, dict(zip(names, row, strict=True))) for step, row in enumerate(rows)],
        seconds=[1.0] * (len(gold) - 1),
    )


UP = [0.5 + 0.01 * step for step in range(41)]
PEAKED = [*(0.5 + 0.02 * step for step in range(16)), *(0.8 - 0.02 * step for step in range(1, 26))]
LOW, HIGH = [0.01] * 41, [0.02 * step for step in range(41)]


def test_a_rule_sees_a_run_step_by_step() -> None:
    step = fires_at(KlCeiling(above=0.3, patience=2), run("a", UP, UP, HIGH))
    assert step == 17
    assert fires_at(KlCeiling(above=0.3), run("b", UP, UP, LOW)) is None


def test_detectors_are_counted_against_the_labels() -> None:
    runs = [run("hit", PEAKED, UP, HIGH), run("miss", PEAKED, UP, LOW), run("alarm", UP, UP, HIGH)]
    found = score(KlCeiling(above=0.3, patience=2), [*runs, run("quiet", UP, UP, LOW)])
    assert (found.hits, found.misses, found.alarms, found.quiet) == (1, 1, 1, 1)
    assert (found.precision, found.recall, found.false_positive_rate, found.f1) == (0.5, 0.5, 0.5, 0.5)
    assert found.saved == pytest.approx(23 / 80)
    assert score(EvalDecline(), runs).recall == 1.0


def test_a_detector_that_never_fires_has_no_precision() -> None:
    never = Score(hits=0, misses=0, alarms=0, quiet=0, saved=0.0)
    assert (never.precision, never.recall, never.false_positive_rate, never.f1) == (0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("steps", [40, 60, 200])
def test_our_rules_are_those_that_init_writes_but_for_the_ceiling_of_the_kl(steps: int) -> None:
    space = load_space(first_space(Wishes(name="mine", steps=steps)))
    rules = [rule if isinstance(rule, dict) else {rule: {}} for rule in space.document["prune"]]
    written = {name: options for rule in rules for name, options in rule.items() if name != "kl_ceiling"}
    assert written == default(steps)
