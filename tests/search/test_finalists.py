from __future__ import annotations

import pytest

from autotune.errors import InvalidSpaceError
from autotune.search.book import MemoryBook
from autotune.search.finalists import finalists_of, finding
from autotune.search.ranking import best_of
from autotune.search.types import Done, Trial
from autotune.spec.types import Budget, Constraint, Direction, Finalists, Objective, PrunerSpec
from autotune.states import TrialState

UP = Objective(metric="r")


def trial(number, value, source="sampler", state=TrialState.COMPLETED, **changes):
    return Trial(number=number, state=state, source=source, params={}, config={}, value=value, **changes)


def runs(of, *values, first):
    return [trial(first + i, value, f"finalist-{of}") for i, value in enumerate(values)]


def test_the_winner_has_the_best_mean_over_fresh_seeds_not_the_luckiest_run():
    trials = [trial(0, 0.5), trial(1, 0.9), *runs(1, 0.5, 0.6, 0.55, first=2), *runs(0, 0.7, 0.72, 0.71, first=5)]
    assert best_of(trials, UP).number == 0
    assert best_of(trials[:2], UP).number == 1
    assert [f.trial for f in finalists_of(trials, UP)] == [0, 1]
    assert best_of(trials, Objective(metric="r", direction=Direction.MINIMIZE)).number == 1


def test_a_fresh_run_is_no_winner_by_itself():
    trials = [trial(0, 0.5), *runs(0, 0.99, first=1)]
    assert best_of(trials, UP).number == 0


def test_a_clear_lead_and_one_within_noise_are_told_apart():
    clear = [trial(0, 0.9), trial(1, 0.8), *runs(0, 0.90, 0.91, 0.92, first=2), *runs(1, 0.50, 0.51, 0.52, first=5)]
    text = finding(finalists_of(clear, UP), "eval/reward")
    assert text.startswith("Trial 0 wins with a mean eval/reward of 0.91 +-0.025 over 3 fresh seeds.")
    assert "by 0.4, more than noise" in text
    noisy = [trial(0, 0.9), trial(1, 0.8), *runs(0, 0.6, 0.9, 0.7, first=2), *runs(1, 0.8, 0.6, 0.7, first=5)]
    assert "within noise" in finding(finalists_of(noisy, UP), "eval/reward")
    assert "take either" in finding(finalists_of(noisy, UP), "eval/reward")


def test_what_cannot_be_said_is_not_said():
    single = [trial(0, 0.9), trial(1, 0.8), *runs(0, 0.9, first=2), *runs(1, 0.7, first=3)]
    assert "nothing can be said about its lead over trial 1" in finding(finalists_of(single, UP), "r")
    assert finding(finalists_of(single[:3], UP), "r") == "Trial 0 wins with a mean r of 0.9 over 1 fresh seed."
    assert finding((), "r") == ""


def test_a_configuration_that_loses_a_run_stands_behind_those_that_do_not():
    lost = trial(4, None, "finalist-0", TrialState.PRUNED)
    trials = [trial(0, 0.9), trial(1, 0.8), *runs(0, 0.9, 0.91, first=2), lost, *runs(1, 0.6, 0.61, 0.62, first=5)]
    assert [(f.trial, f.lost) for f in finalists_of(trials, UP)] == [(1, 0), (0, 1)]
    assert "1 of its fresh runs did not complete" in finding(finalists_of(trials, UP), "r")
    broken = trial(7, 0.99, "finalist-1", violations={"kl <= 0.1": 0.05})
    assert finalists_of([*trials, broken], UP)[0].trial == 0 or finalists_of([*trials, broken], UP)[0].lost == 1


def noisy(config, step):
    luck = (config["seed"] * 7919 % 100) / 1000
    return {"eval/reward": config["epochs"] / 4 + luck, "kl/actor_ref": 0.01}


@pytest.fixture
def study(make_coordinator):
    def make(book=None, *, top=2, seeds=3, **changes):
        return make_coordinator(
            book,
            finalists=Finalists(top=top, seeds=seeds),
            seed_path="seed",
            **{"budget": Budget(trials=6, parallel=2), **changes},
        )

    return make


def with_seed(config, step):
    return noisy({"seed": 0, **config}, step)


def test_the_best_configurations_run_again_with_fresh_seeds_after_the_search(study, play):
    book = MemoryBook()
    coordinator = study(book)
    play(coordinator, with_seed).play()
    fresh = [t for t in coordinator.trials.values() if t.source.startswith("finalist-")]
    assert len(coordinator.trials) == 6 + 6
    assert len({t.config["seed"] for t in fresh}) == 6
    for one in fresh:
        chosen = coordinator.trials[int(one.source.removeprefix("finalist-"))]
        assert one.params == chosen.params
        assert {**one.config, "seed": None} == {**chosen.config, "seed": None}
    values = sorted((t.value for t in list(coordinator.trials.values())[:6]), reverse=True)
    chosen = {int(t.source.removeprefix("finalist-")) for t in fresh}
    assert sorted((coordinator.trials[n].value for n in chosen), reverse=True) == values[:2]
    assert coordinator.best().number == finalists_of(coordinator.trials.values(), UP)[0].trial
    assert isinstance(coordinator.next_trial(1e6), Done)


def test_a_successor_calls_no_second_round_of_finalists(study, play):
    book = MemoryBook()
    first = study(book)
    play(first, with_seed).play(rounds=52)
    assert any(t.source.startswith("finalist-") for t in first.trials.values())
    second = study(book, fence="u")
    second.recover(100.0)
    play(second, with_seed).play()
    assert len(second.trials) == 12


def test_fewer_completed_trials_make_fewer_finalists(study, play):
    constraint = Constraint(metric="kl/actor_ref", upper=True, bound=0.001, text="kl/actor_ref <= 0.001")
    coordinator = study(constraints=(constraint,))
    play(coordinator, with_seed).play()
    assert len(coordinator.trials) == 6
    assert coordinator.best() is None


def test_a_finalist_is_never_stopped_because_others_are_better(study, play):
    asha = PrunerSpec(name="asha", options={"min_steps": 3, "reduction_factor": 3})
    median = PrunerSpec(name="median", options={"min_steps": 2, "patience": 1, "min_trials": 2, "protect_top": 0})
    coordinator = study(prune=(asha, median), budget=Budget(trials=12, parallel=2))
    play(coordinator, with_seed).play()
    fresh = [t for t in coordinator.trials.values() if t.source.startswith("finalist-")]
    assert fresh
    assert {t.state for t in fresh} == {TrialState.COMPLETED}


def test_finalists_without_a_place_for_the_seed_are_refused(make_coordinator):
    with pytest.raises(InvalidSpaceError, match="does not say where its seed is"):
        make_coordinator(finalists=Finalists())
