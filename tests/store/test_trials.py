from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import NotFoundError, UsageError
from autotune.search.types import Point
from autotune.states import TrialState
from autotune.store.curves import evenly, thin


def curve(steps: int, every: int = 10) -> list[Point]:
    return [
        Point(
            step=step,
            time=float(step),
            metrics={"loss": 1.0 / (step + 1)} | ({"eval/reward": float(step)} if step % every == 0 else {}),
        )
        for step in range(steps)
    ]


def test_trials_are_listed_by_number_with_their_last_metrics(desk, make_trial: Callable) -> None:
    desk.book.save(make_trial(1), [Point(step=1, time=1.0, metrics={"a": 2.0})])
    desk.book.save(make_trial(0))
    with desk.store.read() as work:
        records = work.trials.list(desk.job.id)
    assert [(record.trial.number, record.metrics) for record in records] == [(0, {}), (1, {"a": 2.0})]


def test_trials_are_listed_page_by_page_and_by_state(desk, make_trial: Callable) -> None:
    states = [TrialState.COMPLETED, TrialState.PRUNED, TrialState.COMPLETED, TrialState.COMPLETED]
    for number, state in enumerate(states):
        desk.book.save(make_trial(number, state=state))
    with desk.store.read() as work:

        def numbers(**options):
            return [record.trial.number for record in work.trials.list(desk.job.id, **options)]

        assert numbers(limit=2) == [0, 1]
        assert numbers(after=1, limit=2) == [2, 3]
        assert numbers(state=TrialState.COMPLETED, after=0) == [2, 3]
        assert numbers(after=3) == []


def test_the_trials_that_decide_come_without_what_is_heavy(any_store, make_desk, make_trial: Callable) -> None:
    desk = make_desk(any_store)
    states = {0: TrialState.PRUNED, 1: TrialState.COMPLETED, 2: TrialState.PRUNED, 3: TrialState.RUNNING}
    sources = {0: "default", 1: "sampler", 2: "sampler", 3: "finalist-1"}
    for number, state in states.items():
        trial = make_trial(number, state=state, source=sources[number], params={"lr": 0.1}, config={"lr": 0.1})
        desk.book.save(trial, [Point(step=1, time=1.0, metrics={"a": 2.0})])
    with desk.store.read() as work:
        found = work.trials.answers(desk.job.id)
        assert [(trial.number, trial.state, trial.source) for trial in found] == [
            (number, states[number], sources[number]) for number in (0, 1, 3)
        ]
        assert all(trial.params == trial.config == {} for trial in found)


def test_a_trial_that_is_not_there_says_which_are(desk, make_trial: Callable) -> None:
    with desk.store.read() as work, pytest.raises(NotFoundError) as none_yet:
        work.trials.get(desk.job.id, 0)
    assert "no trials yet" in none_yet.value.hint
    desk.book.save(make_trial(0))
    desk.book.save(make_trial(1))
    with desk.store.read() as work, pytest.raises(NotFoundError, match="no trial 7") as caught:
        work.trials.get(desk.job.id, 7)
    assert "0 to 1" in caught.value.hint


def test_short_curves_come_whole(desk, make_trial: Callable) -> None:
    desk.book.save(make_trial(), curve(20))
    with desk.store.read() as work:
        (found,) = work.trials.curves(desk.job.id)
    assert found.steps == list(range(20))
    assert found.metrics["eval/reward"][:11] == [0.0, *[None] * 9, 10.0]


def test_a_thinned_curve_keeps_its_ends_and_its_evaluations(desk, make_trial: Callable) -> None:
    desk.book.save(make_trial(), curve(1001, every=100))
    with desk.store.read() as work:
        (found,) = work.trials.curves(desk.job.id, max_points=40)
    assert len(found.steps) <= 40
    assert (found.steps[0], found.steps[-1]) == (0, 1000)
    assert [value for value in found.metrics["eval/reward"] if value is not None] == [100.0 * n for n in range(11)]


def test_only_the_chosen_metrics_and_trials_are_read(desk, make_trial: Callable) -> None:
    for number in range(3):
        desk.book.save(make_trial(number), curve(20))
    with desk.store.read() as work:
        found = work.trials.curves(desk.job.id, metrics=["eval/reward"], numbers=[0, 2])
        nothing = work.trials.curves(desk.job.id, metrics=["no/such"])
    assert [entry.trial for entry in found] == [0, 2]
    assert found[0].steps == [0, 10]
    assert found[0].metrics == {"eval/reward": [0.0, 10.0]}
    assert nothing == ()


def test_too_few_points_are_refused(desk) -> None:
    with desk.store.read() as work, pytest.raises(UsageError, match="max_points"):
        work.trials.curves(desk.job.id, max_points=1)


def test_totals_count_states_and_seconds_of_all_stages(desk, make_trial: Callable) -> None:
    desk.book.save(make_trial(0, cost_s=5.0))
    desk.book.save(make_trial(1, cost_s=7.0, state=TrialState.PRUNED))
    desk.book.save(make_trial(2, cost_s=1.0, state=TrialState.PRUNED))
    with desk.store.read() as work:
        totals = work.trials.totals([desk.job.id])[desk.job.id]
    assert totals.states == {"running": 1, "pruned": 2}
    assert totals.cost_s == 13.0


@given(st.integers(0, 500), st.integers(1, 60))
def test_even_picks_keep_the_ends_and_the_budget(count: int, keep: int) -> None:
    picked = evenly(count, keep)
    assert len(picked) == min(count, keep)
    assert picked == sorted(set(picked))
    if count and keep > 1:
        assert {0, count - 1} <= set(picked)


@given(st.lists(st.sets(st.integers(0, 300)).map(sorted), max_size=6), st.integers(1, 80))
def test_thinning_never_exceeds_the_budget_and_never_invents_rows(present: list[list[int]], keep: int) -> None:
    chosen = thin(present, keep)
    assert len(chosen) <= keep
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= {row for rows in present for row in rows}


@given(st.sets(st.integers(0, 300), min_size=1).map(sorted), st.integers(2, 80))
def test_a_rare_curve_survives_beside_a_dense_one(rare: list[int], keep: int) -> None:
    chosen = set(thin([list(range(301)), rare], keep))
    kept = [row for row in rare if row in chosen]
    assert len(kept) >= min(len(rare), max(1, keep // 2))
