from __future__ import annotations

import math
import random
import time

import pytest

from autotune.search.curves import Curve
from autotune.search.pruners import Extrapolate, Sight
from autotune.search.types import Point, Reason, Trial
from autotune.spec.types import Direction, Objective, Reduce
from autotune.states import TrialState

REWARD = Objective(metric="eval/reward", smooth=2)
STEPS = 40


def grown(final, *, speed=6.0, noise=0.01, steps=STEPS, seed=0, start=0.1, metric="eval/reward"):
    rng = random.Random(f"{seed}:{final}")
    values = [
        start + (final - start) * (1 - math.exp(-speed * step / STEPS)) + rng.gauss(0.0, noise)
        for step in range(1, steps + 1)
    ]
    return [Point(step=step, time=0.0, metrics={metric: value}) for step, value in enumerate(values, start=1)]


def completed(number, value, **changes):
    fields = {"state": TrialState.COMPLETED, "source": "sampler", "params": {}, "config": {}, "value": value, **changes}
    return Trial(number=number, **fields)


def sight(points, finals=(0.5, 0.6, 0.7, 0.8), *, objective=REWARD, source="sampler", trials=None):
    peers = {number: grown(final, seed=number) for number, final in enumerate(finals)}
    return Sight(
        trial=Trial(number=99, state=TrialState.RUNNING, source=source, params={}, config={}),
        step=points[-1].step,
        curve=points,
        peers=peers,
        objective=objective,
        total_steps=STEPS,
        trials={number: completed(number, final) for number, final in enumerate(finals)} if trials is None else trials,
    )


RULE = Extrapolate(patience=1, protect_top=0)


def test_a_trial_that_levels_off_far_below_the_best_is_stopped_with_the_numbers_that_decided():
    reason = RULE.judge(sight(grown(0.3, steps=20)))
    assert reason.pruner == "extrapolate"
    numbers = reason.numbers
    assert numbers["chance"] < numbers["probability"] == 0.02
    assert numbers["expected"] == pytest.approx(0.3, abs=0.06)
    assert (numbers["threshold"], numbers["incumbent"], numbers["completed"]) == (0.8, 3, 4)
    assert "beat 0.8 (trial 3, the best of 4 completed)" in reason.text
    assert f"at step {numbers['step']:g}" in reason.text


def test_a_trial_on_its_way_to_the_best_goes_on():
    assert RULE.judge(sight(grown(0.9, steps=20))) is None


def test_what_cannot_be_foreseen_yet_goes_on():
    early = Extrapolate(patience=1, protect_top=0, min_steps=1, every=1)
    assert early.judge(sight(grown(0.3, steps=3, noise=0.05))) is None


def test_the_first_trials_of_a_job_have_nobody_to_beat():
    assert RULE.judge(sight(grown(0.3, steps=20), trials={})) is None


def test_only_completed_trials_within_their_constraints_are_to_be_beaten():
    weak = sight(grown(0.3, steps=20))
    broken = {3: completed(3, 0.8, violations={"kl <= 0.1": 0.2}), 2: completed(2, 0.7, state=TrialState.PRUNED)}
    finalist = {1: completed(1, 0.6, source="finalist-0")}
    for trials in (broken, finalist):
        assert RULE.judge(sight(weak.curve, trials=trials)) is None


def test_beating_number_k_is_enough_when_asked():
    finals = (0.2, 0.25, 0.3, 0.8)
    assert RULE.judge(sight(grown(0.45, steps=20), finals)) is not None
    assert Extrapolate(patience=1, protect_top=0, top=2).judge(sight(grown(0.45, steps=20), finals)) is None
    assert Extrapolate(patience=1, protect_top=0, top=5).judge(sight(grown(0.1, steps=20), finals)) is None


def test_one_low_look_is_not_enough_with_patience():
    # Level until step 14, then it takes off: hopeless as seen at step 15, promising at step 20.
    points = grown(0.2, steps=14)
    rise = [Point(step=s, time=0.0, metrics={"eval/reward": 0.2 + 0.12 * (s - 14)}) for s in range(15, 21)]
    assert Extrapolate(patience=2, protect_top=0).judge(sight([*points, *rise])) is None
    steady = Extrapolate(patience=2, protect_top=0).judge(sight(grown(0.2, steps=20)))
    assert steady is not None
    assert steady.numbers["chance_before"] < 0.02


def test_it_looks_once_in_every_few_steps():
    looks = [step for step in range(10, STEPS) if RULE.judge(sight(grown(0.2, steps=step))) is not None]
    assert looks == [10, 15, 20, 25, 30, 35]


def test_an_evaluation_now_and_then_is_looked_at_when_it_is_reported():
    points = [
        Point(step=p.step, time=0.0, metrics=p.metrics if p.step % 4 == 0 else {"reward/mean": 0.0})
        for p in grown(0.2, steps=36)
    ]
    fired = [n for n in range(10, 37) if RULE.judge(sight(points[:n])) is not None]
    assert fired
    assert all(step % 4 == 0 for step in fired)


def test_the_default_configuration_and_fresh_runs_are_never_stopped():
    for source in ("default", "finalist-3"):
        assert RULE.judge(sight(grown(0.2, steps=20), source=source)) is None


def test_what_is_among_the_best_at_its_step_is_never_stopped():
    # Ahead of everybody at step 20, and flat ever since: it will be overtaken, but it leads.
    slow = (0.81, 0.82, 0.83, 0.84)
    peers = {n: grown(final, seed=n, speed=1.2) for n, final in enumerate(slow)}
    leader = [Point(step=p.step, time=0.0, metrics={"eval/reward": 0.45}) for p in grown(0.45, steps=20)]
    view = sight(leader, slow)
    view = Sight(
        trial=view.trial,
        step=20,
        curve=leader,
        peers={n: points if n else grown(0.84, seed=9, speed=3.0) for n, points in peers.items()},
        objective=REWARD,
        total_steps=STEPS,
        trials=view.trials,
    )
    assert Extrapolate(patience=1, protect_top=0).judge(view) is not None
    assert Extrapolate(patience=1, protect_top=3).judge(view) is None


def test_less_is_better_where_the_objective_says_so():
    loss = Objective(metric="eval/reward", direction=Direction.MINIMIZE, smooth=2)
    finals = (0.5, 0.4, 0.3, 0.2)
    peers = {n: grown(final, seed=n, start=1.0) for n, final in enumerate(finals)}
    base = sight(grown(0.8, steps=20, start=1.0), finals, objective=loss)
    view = Sight(
        trial=base.trial, step=20, curve=base.curve, peers=peers, objective=loss, total_steps=STEPS, trials=base.trials
    )
    reason = RULE.judge(view)
    assert reason.numbers["threshold"] == 0.2
    assert reason.numbers["expected"] == pytest.approx(0.8, abs=0.1)
    good = Sight(
        trial=base.trial,
        step=20,
        curve=grown(0.1, steps=20, start=1.0),
        peers=peers,
        objective=loss,
        total_steps=STEPS,
        trials=base.trials,
    )
    assert RULE.judge(good) is None


def test_a_maximum_that_is_already_better_than_the_best_cannot_be_lost():
    top = Objective(metric="eval/reward", reduce=Reduce.MAX)
    points = grown(0.2, steps=20)
    points[8] = Point(step=9, time=0.0, metrics={"eval/reward": 0.95})
    assert RULE.judge(sight(points, objective=top)) is None


def test_values_that_are_not_finite_are_left_out_and_not_judged_upon():
    points = grown(0.2, steps=20)
    points[7] = Point(step=8, time=0.0, metrics={"eval/reward": None})
    assert RULE.judge(sight(points)) is not None
    points[-1] = Point(step=20, time=0.0, metrics={"eval/reward": None})
    assert RULE.judge(sight(points)) is None


def test_another_curve_may_be_compared():
    rule = Extrapolate(patience=1, protect_top=0, metric="reward/mean")
    peers = {n: grown(f, seed=n, metric="reward/mean") for n, f in enumerate((0.5, 0.6, 0.8))}
    base = sight(grown(0.2, steps=20, metric="reward/mean"))
    view = Sight(
        trial=base.trial,
        step=20,
        curve=base.curve,
        peers=peers,
        objective=REWARD,
        total_steps=STEPS,
        trials={n: completed(n, 0.0) for n in peers},
    )
    assert rule.judge(view).numbers["threshold"] == pytest.approx(0.8, abs=0.03)


def test_the_same_study_gives_the_same_answer_whether_curves_remember_or_not():
    plain = sight(grown(0.3, steps=20))
    remembering = Sight(
        trial=plain.trial,
        step=20,
        curve=Curve(plain.curve),
        peers={n: Curve(points) for n, points in plain.peers.items()},
        objective=REWARD,
        total_steps=STEPS,
        trials=plain.trials,
    )
    first: Reason = RULE.judge(plain)
    assert RULE.judge(remembering) == first == RULE.judge(remembering)


def test_a_decision_takes_milliseconds():
    finals = [0.3 + 0.005 * n for n in range(100)]
    points = Curve(grown(0.2, steps=20))
    base = sight(points, finals)
    view = Sight(
        trial=base.trial,
        step=20,
        curve=points,
        peers={n: Curve(curve) for n, curve in base.peers.items()},
        objective=REWARD,
        total_steps=STEPS,
        trials=base.trials,
    )
    RULE.judge(view)  # learns from the finished curves, once
    times = []
    for _ in range(7):
        began = time.process_time()
        RULE.judge(view)
        times.append(time.process_time() - began)
    assert min(times) < 0.05
