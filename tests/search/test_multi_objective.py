from __future__ import annotations

import math

import pytest

from autotune.search.book import MemoryBook
from autotune.search.finalists import finalists_of, finding_of_front
from autotune.search.pareto import dominates
from autotune.search.pruners import Asha, Extrapolate, Median, Plateau, Sight
from autotune.search.ranking import answer, best_of, front, ranked
from autotune.search.types import Point, Trial
from autotune.spec.types import (
    Budget,
    Constraint,
    Direction,
    Finalists,
    FloatRange,
    Objective,
    Parameter,
    PrunerSpec,
    SamplerSpec,
)
from autotune.states import TrialState

LENGTH = Objective(metric="length", direction=Direction.MINIMIZE)
GOALS = Objective(metric="reward", also=(LENGTH,))
UNIT = {name: Parameter(path=name, domain=FloatRange(low=0.0, high=1.0)) for name in ("x", "y")}


def completed(number, reward, length, **changes):
    fields = {"state": TrialState.COMPLETED, "source": "sampler", "params": {}, "config": {}, **changes}
    return Trial(number=number, value=reward, values={"reward": reward, "length": length}, **fields)


def curve(reward, length, steps=12):
    return [Point(step=s, time=0.0, metrics={"reward": reward, "length": length}) for s in range(1, steps + 1)]


def sight(points, peers, **changes):
    return Sight(
        **{
            "trial": Trial(number=99, state=TrialState.RUNNING, source="sampler", params={}, config={}),
            "step": points[-1].step,
            "curve": points,
            "peers": dict(enumerate(peers)),
            "objective": GOALS,
            "total_steps": 100,
            **changes,
        }
    )


def test_the_answer_is_the_front_and_its_compromise():
    trials = [completed(0, 0.9, 200), completed(1, 0.2, 40), completed(2, 0.8, 60), completed(3, 0.7, 70)]
    assert [trial.number for trial in front(trials, GOALS)] == [0, 1, 2]
    assert best_of(trials, GOALS).number == 2
    assert {trial.number for trial in ranked(trials, GOALS)[:3]} == {0, 1, 2}
    assert ranked(trials, GOALS)[-1].number == 3


def test_a_trial_that_breaks_a_constraint_is_not_on_the_front():
    trials = [completed(0, 0.9, 40, violations={"kl <= 0.1": 0.2}), completed(1, 0.2, 50)]
    assert [trial.number for trial in front(trials, GOALS)] == [1]


def test_with_one_objective_the_front_is_the_best():
    trials = [completed(0, 0.5, 1), completed(1, 0.9, 9)]
    assert [trial.number for trial in front(trials, Objective(metric="reward"))] == [1]


# Peers between "high reward, long" and "low reward, short": nobody beats anybody.
TRADE = [curve(0.1 * n, 100 * n) for n in range(1, 8)]


@pytest.mark.parametrize("rule", [Asha(min_steps=10, mode="stop", protect_top=0), Median(patience=1, protect_top=0)])
def test_what_others_beat_in_everything_is_stopped(rule):
    reason = rule.judge(sight(curve(0.05, 900, 10), TRADE))
    assert reason is not None
    assert reason.numbers["rank"] == 8
    assert (reason.numbers["reward"], reason.numbers["length"]) == (0.05, 900)
    assert "fronts of 2 objectives" in reason.text


@pytest.mark.parametrize("rule", [Asha(min_steps=10, mode="stop"), Median(patience=1, protect_top=0)])
def test_what_is_best_in_one_objective_goes_on_however_bad_it_is_in_the_other(rule):
    assert rule.judge(sight(curve(0.99, 5000, 10), TRADE)) is None
    assert rule.judge(sight(curve(0.0, 1, 10), TRADE)) is None


@pytest.mark.parametrize("rule", [Asha(min_steps=10, mode="stop"), Median(patience=1)])
def test_an_objective_that_is_not_finite_stands_last(rule):
    assert rule.judge(sight(curve(None, 1, 10), TRADE)) is not None


def test_an_objective_that_was_not_reported_yet_stops_nobody():
    points = [Point(step=s, time=0.0, metrics={"reward": 0.0}) for s in range(1, 11)]
    for rule in (Asha(min_steps=10, mode="stop"), Median(patience=1)):
        assert rule.judge(sight(points, TRADE)) is None


def test_a_plateau_in_one_objective_is_none_while_the_other_still_gains():
    flat = Plateau(patience=5, min_steps=5, smooth=1, protect_top=0)
    shrinking = [Point(step=s, time=0.0, metrics={"reward": 0.5, "length": 100.0 - s}) for s in range(1, 31)]
    assert flat.judge(sight(shrinking, TRADE)) is None
    assert flat.judge(sight(curve(0.5, 100, 30), TRADE)) is not None


def learning(reward, length, steps, total=40):
    return [
        Point(
            step=s,
            time=0.0,
            metrics={
                "reward": reward * (1 - math.exp(-6 * s / total)) + 0.004 * math.sin(7 * s),
                "length": 200 + (length - 200) * (1 - math.exp(-6 * s / total)) + math.sin(5 * s),
            },
        )
        for s in range(1, steps + 1)
    ]


def test_extrapolation_stops_what_will_be_beaten_in_everything_and_nothing_else():
    ends = {0: (0.9, 300), 1: (0.5, 100), 2: (0.7, 150)}
    peers = [learning(*ends[n], 40) for n in ends]
    trials = {n: completed(n, *ends[n]) for n in ends}
    rule = Extrapolate(patience=1, protect_top=0)

    def judge(reward, length):
        return rule.judge(sight(learning(reward, length, 25), peers, trials=trials, total_steps=40))

    beaten = judge(0.3, 280)
    assert beaten.numbers["chance"] < 0.05
    assert {"expected:reward", "expected:length", "threshold:reward", "threshold:length"} <= beaten.numbers.keys()
    assert judge(0.3, 60) is None
    assert judge(1.1, 400) is None


def goals(config, step):
    """A front from x = 0 to x = 1 at y = 0.5; what is off it is worse in both."""
    off = abs(config["y"] - 0.5)
    return {"reward": config["x"] - off, "length": 100 * (config["x"] ** 2 + off)}


def space_of(name, **changes):
    return {
        "search": UNIT,
        "objective": GOALS,
        "sampler": SamplerSpec(name=name, seed=3),
        "budget": Budget(trials=14, parallel=3),
        "start_from": (),
        **changes,
    }


@pytest.mark.parametrize("name", ["tpe", "nsga2", "nsga3", "random", "qmc", "grid", "auto"])
def test_a_search_for_several_objectives_ends_with_a_front(make_coordinator, play, name):
    pytest.importorskip("torch")
    coordinator = make_coordinator(**space_of(name, prune=(PrunerSpec(name="asha", options={"min_steps": 2}),)))
    play(coordinator, goals).play()
    trials = list(coordinator.trials.values())
    assert {trial.state for trial in trials} <= {TrialState.COMPLETED, TrialState.PRUNED}
    assert any(trial.state is TrialState.PRUNED for trial in trials)
    best = front(trials, GOALS)
    assert coordinator.best() in best
    ends = [answer(GOALS, trial) for trial in trials if trial.state is TrialState.COMPLETED]
    assert not any(dominates(end, answer(GOALS, trial)) for end in ends for trial in best)
    assert all(trial.values.keys() == {"reward", "length"} for trial in best)


@pytest.mark.parametrize("name", ["tpe", "nsga2"])
def test_a_sampler_that_learns_comes_nearer_to_the_front_than_random(make_coordinator, play, name):
    def off(which):
        coordinator = make_coordinator(**space_of(which, budget=Budget(trials=80, parallel=1)))
        play(coordinator, goals, steps=1).play()
        later = [trial.params["y"] for number, trial in coordinator.trials.items() if number >= 48]
        return sum(abs(y - 0.5) for y in later) / len(later)

    assert off(name) < 0.75 * off("random")


def test_a_constraint_holds_on_the_front(make_coordinator, play):
    bound = Constraint(metric="length", upper=True, bound=40.0, text="length <= 40")
    coordinator = make_coordinator(**space_of("tpe", constraints=(bound,)))
    play(coordinator, goals).play()
    best = front(coordinator.trials.values(), GOALS)
    assert best
    assert all(trial.values["length"] <= 40 for trial in best)


def test_finalists_come_from_the_front_and_are_told_by_all_their_means(make_coordinator, play):
    changes = space_of("random", finalists=Finalists(top=2, seeds=2))
    coordinator = make_coordinator(seed_path="epochs", **changes)

    def noisy(config, step):
        values = goals(config, step)
        return {**values, "reward": values["reward"] + 1e-3 * (int(config["epochs"]) % 7)}

    play(coordinator, noisy).play()
    trials = list(coordinator.trials.values())
    finalists = finalists_of(trials, GOALS)
    assert {one.trial for one in finalists} <= {trial.number for trial in front(trials, GOALS)}
    assert all(one.means.keys() == {"reward", "length"} for one in finalists)
    text = finding_of_front(finalists, GOALS)
    assert "2 fresh seeds" in text
    assert "finalists stay on the front" in text
    assert coordinator.best().number == finalists[0].trial


def test_an_objective_that_never_appears_is_named(make_coordinator, play):
    coordinator = make_coordinator(**space_of("random", budget=Budget(trials=1)))
    play(coordinator, lambda config, step: {"reward": 1.0}).play()
    trial = coordinator.trials[0]
    assert trial.state is TrialState.FAILED
    assert "length" in trial.error_message


def test_a_successor_knows_the_values_of_all_objectives(make_coordinator, play):
    book = MemoryBook()
    play(make_coordinator(book, **space_of("random", budget=Budget(trials=3))), goals).play()
    successor = make_coordinator(book, fence="u", **space_of("random", budget=Budget(trials=3)))
    assert front(successor.trials.values(), GOALS)
