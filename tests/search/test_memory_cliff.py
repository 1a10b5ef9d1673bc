"""A region that runs out of memory is learned and left alone, by every sampler that learns."""

from __future__ import annotations

import pytest

from autotune.search.proposer import Proposer
from autotune.search.samplers.feasibility import Feasibility
from autotune.search.types import EndKind, Launch, Outcome, Trial
from autotune.spec.types import Budget, Choice, FloatRange, IntRange, Objective, Parameter, SamplerSpec
from autotune.states import TrialState

SEARCH = {
    "rows": Parameter(path="rows", domain=IntRange(low=1, high=64)),
    "tokens": Parameter(path="tokens", domain=FloatRange(low=0.0, high=1.0)),
}


def memory(config):
    """What a configuration needs, in units of what there is: two thirds of the space do not fit."""
    return config["rows"] / 64 + config["tokens"]


def throughput(config):
    """Grows towards the cliff, so that every sampler is drawn to it; the best lies right before it."""
    return 1000 * memory(config)


def run(make_coordinator, name, trials, seed=0):
    """A search in which a configuration beyond the cliff dies before its first step."""
    coordinator = make_coordinator(
        search=SEARCH,
        sampler=SamplerSpec(name=name, seed=seed),
        objective=Objective(metric="perf/tokens_per_s"),
        budget=Budget(trials=trials),
        start_from=(),
    )
    while isinstance(launch := coordinator.next_trial(0.0), Launch):
        attempt, config = launch.attempt, dict(launch.config)
        kind = EndKind.OUT_OF_MEMORY if memory(config) > 0.8 else EndKind.FINISHED
        if kind is EndKind.FINISHED:
            coordinator.on_metrics(attempt, 10, {"perf/tokens_per_s": throughput(config)}, 1.0, 1.0)
        coordinator.on_end(attempt, Outcome(kind=kind, last_step=10 * (kind is EndKind.FINISHED)), 1.0)
    return list(coordinator.trials.values())


def beyond(trials, margin=0.0):
    """The part of some trials that needs more memory than there is, by a margin."""
    return sum(memory(trial.params) > 0.8 + margin for trial in trials) / len(trials)


@pytest.mark.parametrize(("name", "trials"), [("tpe", 60), ("nsga2", 60), ("cmaes", 60), ("gp", 20), ("auto", 20)])
def test_a_region_that_runs_out_of_memory_is_not_proposed_again(make_coordinator, name, trials):
    if name in ("gp", "auto"):
        pytest.importorskip("torch")
    later = run(make_coordinator, name, trials)[trials // 2 :]
    blind = run(make_coordinator, "random", 200)
    assert beyond(blind) > 0.6
    assert beyond(blind, margin=0.2) > 0.4
    assert beyond(later) < 0.75 * beyond(blind)
    assert beyond(later, margin=0.2) < 0.25 * beyond(blind, margin=0.2)
    assert max(trial.value for trial in later if trial.value is not None) > 740


def test_told_as_a_failure_the_region_would_be_proposed_again(make_coordinator, make_space):
    """Why infeasible is not failed: Optuna's samplers forget failures."""
    learned = run(make_coordinator, "tpe", 40)
    space = make_space(
        search=SEARCH, sampler=SamplerSpec(name="tpe"), objective=Objective(metric="perf/tokens_per_s"), start_from=()
    )
    forgotten = [trial for trial in learned if trial.state is not TrialState.INFEASIBLE]
    curves = {trial.number: () for trial in learned}

    def broken(known):
        proposals = [Proposer(space, {}).propose(100 + n, known, curves) for n in range(24)]
        return sum(memory(one) > 0.8 for one in proposals)

    assert broken(learned) < broken(forgotten)


def test_what_lies_near_broken_trials_is_likely_to_break_and_what_lies_near_sound_ones_is_not(make_space):
    def ended(number, rows, tokens):
        broken = rows / 64 + tokens > 0.8
        state = TrialState.INFEASIBLE if broken else TrialState.COMPLETED
        params = {"rows": rows, "tokens": tokens}
        return Trial(number=number, state=state, source="sampler", params=params, config=params)

    grid = [(rows, tokens / 8) for rows in (1, 16, 32, 48, 64) for tokens in range(9)]
    model = Feasibility(SEARCH, [ended(n, *place) for n, place in enumerate(grid)])
    assert model.chance({"rows": 60, "tokens": 0.9}) > 0.9
    assert model.chance({"rows": 4, "tokens": 0.1}) < 0.1
    assert Feasibility(SEARCH, []).chance({"rows": 60, "tokens": 0.9}) == 0.0


def test_when_everything_is_likely_to_break_the_least_likely_is_tried():
    broken = [
        Trial(
            number=n, state=TrialState.INFEASIBLE, source="sampler", params={"rows": 60 - n, "tokens": 0.9}, config={}
        )
        for n in range(6)
    ]
    model = Feasibility(SEARCH, broken)
    candidates = [{"rows": 60, "tokens": 0.9}, {"rows": 50, "tokens": 0.7}, {"rows": 58, "tokens": 0.8}]
    assert all(model.chance(one) > 0.5 for one in candidates)
    assert list(model.sift(iter(candidates))) == [candidates[1], candidates[2], candidates[0]]


def test_a_choice_that_always_breaks_is_left_alone_and_the_others_are_not():
    search = {"kind": Parameter(path="kind", domain=Choice(options=("good", "bad")))}
    states = {"good": TrialState.COMPLETED, "bad": TrialState.INFEASIBLE}
    trials = [
        Trial(number=n, state=states[kind], source="sampler", params={"kind": kind}, config={})
        for n, kind in enumerate(["good", "bad"] * 4)
    ]
    model = Feasibility(search, trials)
    assert model.chance({"kind": "bad"}) > 0.7
    assert model.chance({"kind": "good"}) < 0.3
