from __future__ import annotations

import math
from dataclasses import replace

import pytest

from autotune.search.advice import Advice, Change, changed
from autotune.search.advisor import CHANCES, advised_trials, origin, outcome_event
from autotune.search.book import MemoryBook
from autotune.search.coordinator import Coordinator
from autotune.search.types import EndKind, Trial
from autotune.spec.expressions import parse
from autotune.spec.types import (
    AdvisorSpec,
    Budget,
    Choice,
    Constraint,
    FloatRange,
    IntRange,
    Objective,
    Parameter,
    Start,
)
from autotune.states import TrialState

LR, COEF, KIND = "trainer.optim.lr", "algorithm.kl_ctrl.kl_coef", "algorithm.kl_ctrl.type"
BASE = {LR: 1e-2, COEF: 0.05, KIND: "fixed", "algorithm.kl_ctrl.target_kl": None, "trainer.ppo_epochs": 1}
SEARCH = {
    path: Parameter(path=path, domain=domain)
    for path, domain in {
        LR: FloatRange(low=1e-5, high=1e-1, log=True),
        COEF: FloatRange(low=1e-3, high=1.0, log=True),
        KIND: Choice(options=("fixed", "adaptive")),
    }.items()
}
STEPS = 20


def far(config, step):
    """The larger the learning rate, the farther from the reference; 3e-3 is best."""
    lr = config[LR]
    return {
        "eval/reward": step / STEPS - abs(math.log10(lr / 3e-3)) / 4,
        "reward/mean": 1 - math.exp(-8 * step / STEPS),
        "kl/actor_ref": 0.02 + 20 * lr * step / STEPS,
    }


def never_better(config, step):
    return {**far(config, step), "eval/reward": 0.5 if config[LR] == BASE[LR] else 0.1}


@pytest.fixture
def search(make_space, play):
    def run(book=None, curve=far, rounds=10_000, **changes):
        defaults = {
            "search": SEARCH,
            "budget": Budget(trials=20, parallel=1),
            "advisor": AdvisorSpec(share=0.25),
            "start_from": (Start(label="default"),),
        }
        space = make_space(**{**defaults, **changes})
        coordinator = Coordinator(space, BASE, book or MemoryBook(), fence="t", total_steps=STEPS)
        coordinator.recover(0.0)
        players = play(coordinator, curve)
        players.steps = STEPS
        players.play(rounds=rounds)
        return coordinator

    return run


def from_advice(coordinator):
    return [trial for trial in coordinator.trials.values() if trial.source.startswith("advice:")]


def test_a_job_follows_the_advice_on_its_own_trials(search):
    coordinator = search()
    found = from_advice(coordinator)
    assert found
    first = found[0]
    rule, parent = origin(first.source)
    before = coordinator.trials[parent]
    assert rule == "kl_too_high"
    assert before.state is TrialState.COMPLETED
    assert first.params[LR] == pytest.approx(before.params[LR] / 3, rel=0.05)
    assert first.params[KIND] == "adaptive"
    assert first.params[COEF] == before.params[COEF]


def test_without_the_key_advice_is_only_shown(search):
    assert from_advice(search(advisor=None)) == []


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_advice_never_gets_more_than_its_share_of_the_trials(search, share):
    coordinator = search(advisor=AdvisorSpec(share=share))
    trials = list(coordinator.trials.values())
    given = 0
    for number, trial in enumerate(trials, 1):
        given += trial.source.startswith("advice:")
        assert given <= share * number, number
    assert len(trials) == 20


def test_no_configuration_and_no_advice_is_followed_twice(search):
    trials = list(search(advisor=AdvisorSpec(share=1.0)).trials.values())
    sources = [trial.source for trial in trials if trial.source.startswith("advice:")]
    assert len(sources) > 3
    assert len(set(sources)) == len(sources)
    params = [tuple(sorted(trial.params.items())) for trial in trials]
    assert len(set(params)) == len(params)


def test_what_advice_makes_lies_in_the_space_and_meets_its_conditions(search):
    narrow = {**SEARCH, LR: Parameter(path=LR, domain=FloatRange(low=5e-3, high=1e-1, log=True))}
    require = (parse(f"{KIND} == 'fixed'"),)
    coordinator = search(search=narrow, require=require, advisor=AdvisorSpec(share=0.5))
    assert all(5e-3 <= trial.params[LR] <= 1e-1 for trial in coordinator.trials.values())
    assert all(trial.params[KIND] == "fixed" for trial in coordinator.trials.values())


def test_a_parameter_that_is_not_searched_stays_as_it_is(search):
    coordinator = search(search={COEF: SEARCH[COEF]}, advisor=AdvisorSpec(share=0.5))
    assert all(trial.config[LR] == BASE[LR] for trial in coordinator.trials.values())


def test_a_rule_that_never_helped_is_not_followed_for_ever(search):
    coordinator = search(curve=never_better, advisor=AdvisorSpec(share=1.0))
    by_rule = {}
    for one in advised_trials(coordinator.trials.values(), Objective(metric="eval/reward")):
        by_rule.setdefault(one.rule, []).append(one.better)
    assert by_rule["kl_too_high"] == [False] * CHANCES


def test_a_successor_follows_the_advice_that_the_interrupted_coordinator_would_have(search):
    whole = [trial.params for trial in search().trials.values()]
    book = MemoryBook()
    assert len(search(book=book, rounds=130).trials) < 20
    assert [trial.params for trial in search(book=book).trials.values()] == whole


def test_advice_mends_what_broke_a_constraint(search):
    constraints = (Constraint(metric="kl/actor_ref", upper=True, bound=0.1, text="kl/actor_ref <= 0.1"),)
    coordinator = search(constraints=constraints, budget=Budget(trials=4, parallel=1))
    first = from_advice(coordinator)[0]
    assert origin(first.source) == ("kl_too_high", 0)
    assert not coordinator.trials[0].feasible


def test_the_end_of_a_trial_from_advice_is_on_the_record(search):
    book = MemoryBook()
    coordinator = search(book=book)
    events = [event for event in book.events if event.kind == "trial.advice"]
    assert [event.trial for event in events] == [trial.number for trial in from_advice(coordinator)]
    first = events[0]
    assert first.data["rule"] == "kl_too_high"
    assert first.data["better"] in (True, False)
    assert ("helped" in first.text) == (first.data["better"] or "did not" in first.text)


def trial(number, source="sampler", state=TrialState.COMPLETED, value=0.5, **more):
    return Trial(number=number, state=state, source=source, params={}, config={}, value=value, **more)


@pytest.mark.parametrize(
    ("child", "better"),
    [
        (trial(1, "advice:clip_idle:0", value=0.6), True),
        (trial(1, "advice:clip_idle:0", value=0.5), False),
        (trial(1, "advice:clip_idle:0", value=0.6, violations={"kl <= 1": 0.1}), False),
        (trial(1, "advice:clip_idle:0", TrialState.PRUNED, 0.6), False),
        (trial(1, "advice:clip_idle:0", TrialState.INFEASIBLE, None, error_kind=EndKind.OUT_OF_MEMORY), False),
        (trial(1, "advice:clip_idle:0", TrialState.FAILED, None), None),
        (trial(1, "advice:clip_idle:0", TrialState.RUNNING, None), None),
    ],
)
def test_a_trial_from_advice_did_better_only_as_a_better_answer(child, better):
    one = advised_trials([trial(0), child], Objective(metric="eval/reward"))[0]
    assert (one.rule, one.parent, one.better) == ("clip_idle", 0, better)
    assert bool(outcome_event(child, {0: trial(0)}, Objective(metric="eval/reward"), 1.0)) == (better is not None)


def test_a_trial_after_one_that_was_no_answer_did_better_by_being_one():
    broken = trial(0, violations={"kl <= 1": 0.5}, value=0.9)
    child = trial(1, "advice:kl_too_high:0", value=0.4)
    assert advised_trials([broken, child], Objective(metric="eval/reward"))[0].better


def advice(path, before, after):
    return Advice(rule="r", finding="", numbers={}, changes=(Change(path=path, before=before, after=after),), source="")


@pytest.mark.parametrize(
    ("domain", "before", "after", "tried"),
    [
        (FloatRange(low=1e-4, high=1e-2), 3e-4, 1e-5, 1e-4),
        (FloatRange(low=1e-4, high=1e-2), 1e-4, 1e-5, None),
        (Choice(options=(32, 64, 128)), 64, 96, 128),
        (Choice(options=(32, 64)), 64, 128, None),
        (IntRange(low=1, high=4), 8, 4, 4),
        (Choice(options=("fixed", "adaptive")), "fixed", "adaptive", "adaptive"),
        (Choice(options=("fixed",)), "fixed", "adaptive", None),
        (Choice(options=(True, False)), False, True, True),
    ],
)
def test_a_change_goes_as_far_as_the_space_and_never_the_other_way(domain, before, after, tried):
    found = changed(advice("x", before, after), {"x": before, "y": 1}, {"x": domain})
    assert found == (None if tried is None else {"x": tried, "y": 1})


def test_a_change_of_what_is_not_searched_is_left_out():
    both = replace(advice("x", 1.0, 0.5), changes=(*advice("x", 1.0, 0.5).changes, *advice("z", 1, 2).changes))
    assert changed(both, {"x": 1.0}, {"x": FloatRange(low=0.1, high=2.0)}) == {"x": 0.5}
    assert changed(advice("z", 1, 2), {"x": 1.0}, {"x": FloatRange(low=0.1, high=2.0)}) is None
