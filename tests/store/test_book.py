import dataclasses
import math
import string
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from autotune.errors import ConflictError, LeaseLostError
from autotune.search.types import Attempt, EndKind, Event, Point, Reason, Trial
from autotune.states import TrialState
from autotune.store import NewJob, SqlBook, Store

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), max_size=30)
NAMES = st.text(string.ascii_lowercase + "/._", min_size=1, max_size=12)
LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | FINITE | TEXTS
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))
CONFIGS = st.dictionaries(NAMES, VALUES, max_size=5)
MOMENTS = st.floats(0, 2e9)
ATTEMPTS = st.builds(lambda number, token: Attempt(trial=0, number=number, token=token), st.integers(1, 9), NAMES)
REASONS = st.builds(Reason, pruner=NAMES, text=TEXTS, numbers=st.dictionaries(NAMES, FINITE, max_size=3))
TRIALS = st.builds(
    Trial,
    number=st.just(0),
    state=st.sampled_from(TrialState),
    source=NAMES,
    params=CONFIGS,
    config=CONFIGS,
    attempt=st.none() | ATTEMPTS,
    last_step=st.integers(0, 10**6),
    value=st.none() | FINITE,
    violations=st.dictionaries(TEXTS, FINITE, max_size=3),
    values=st.dictionaries(TEXTS, FINITE, max_size=3),
    reason=st.none() | REASONS,
    error_kind=st.none() | st.sampled_from(EndKind),
    error_message=TEXTS,
    error_hint=TEXTS,
    cost_s=st.floats(0, 1e9),
    created_at=MOMENTS,
    started_at=st.none() | MOMENTS,
    ended_at=st.none() | MOMENTS,
)


@pytest.fixture
def any_desk(any_store: Store, make_desk: Callable):
    return make_desk(any_store)


def point(step: int, **metrics: float | None) -> Point:
    return Point(step=step, time=float(step), metrics=metrics)


def reopened(desk) -> SqlBook:
    return SqlBook(desk.store, desk.study.id, desk.lease)


@given(trials=st.lists(TRIALS, min_size=1, max_size=4))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_saved_last_is_what_is_loaded(desk, trials: list[Trial]) -> None:
    for trial in trials:
        desk.book.save(trial)
    assert reopened(desk).load().trials == [trials[-1]]


@pytest.mark.parametrize("trials", [1, 3])
def test_curves_come_back_in_step_order(any_desk, make_trial: Callable, trials: int) -> None:
    for number in range(trials):
        any_desk.book.save(make_trial(number), [point(10, a=1.0), point(2, a=2.0)])
    history = any_desk.book.load()
    assert [trial.number for trial in history.trials] == list(range(trials))
    assert all([p.step for p in history.curves[number]] == [2, 10] for number in range(trials))


def test_saving_twice_is_the_same_as_once(any_desk, make_trial: Callable) -> None:
    for book in (any_desk.book, any_desk.book, reopened(any_desk)):
        book.save(make_trial(), [point(1, a=1.0)])
    history = any_desk.book.load()
    assert history.trials == [make_trial()]
    assert history.curves == {0: [point(1, a=1.0)]}
    with any_desk.store.read() as work:
        assert len(work.trials.attempts(any_desk.job.id, 0)) == 1


def test_a_repeated_step_replaces_the_earlier_one(any_desk, make_trial: Callable) -> None:
    any_desk.book.save(make_trial(), [point(1, a=1.0), point(2, a=2.0)])
    any_desk.book.save(make_trial(), [point(2, b=3.0), point(2, b=4.0)])
    assert any_desk.book.load().curves[0] == [point(1, a=1.0), point(2, b=4.0)]


def test_what_is_not_finite_is_stored_as_nothing(any_desk, make_trial: Callable) -> None:
    reason = Reason(pruner="not_finite", text="loss", numbers={"loss": math.nan, "step": 3.0})
    trial = make_trial(value=math.nan, violations={"kl <= 1": math.inf, "b": -1.0}, reason=reason)
    any_desk.book.save(trial, [Point(step=1, time=1.0, metrics={"loss": math.inf, "kl": None, "ok": 1.0})])
    history = reopened(any_desk).load()
    found = history.trials[0]
    assert found.value is None
    assert found.violations == {"kl <= 1": math.inf, "b": -1.0}
    assert not found.feasible
    assert math.isnan(found.reason.numbers["loss"])
    assert history.curves[0][0].metrics == {"loss": None, "kl": None, "ok": 1.0}


def test_a_lost_lease_cannot_save(any_desk, make_trial: Callable) -> None:
    any_desk.book.save(make_trial(), [point(1, a=1.0)])
    before = any_desk.book.load()
    with any_desk.store.begin() as work:
        work.jobs.lease(any_desk.job.id, "driver-b", 99.0, 30.0)
    event = Event(at=1.0, kind="trial.state", text="late", trial=0)
    with pytest.raises(LeaseLostError, match="driver-a"):
        any_desk.book.save(make_trial(value=7.0), [point(2, a=9.0)], [event])
    with pytest.raises(LeaseLostError):
        any_desk.book.save(make_trial(1))
    assert any_desk.book.load() == before
    with any_desk.store.read() as work:
        assert "late" not in [record.event.text for record in work.trials.events(any_desk.job.id)]


def test_an_expired_lease_that_nobody_took_still_saves(desk, make_trial: Callable) -> None:
    with desk.store.begin() as work:
        assert [job.id for job in work.jobs.abandoned(1e9)] == [desk.job.id]
    desk.book.save(make_trial())
    assert desk.book.load().trials == [make_trial()]


def test_a_released_lease_cannot_save(desk, make_trial: Callable) -> None:
    with desk.store.begin() as work:
        work.jobs.release(desk.lease)
    with pytest.raises(LeaseLostError, match="free now"):
        desk.book.save(make_trial())


def test_the_successor_goes_on_where_the_lost_driver_was(desk, make_trial: Callable) -> None:
    desk.book.save(make_trial(), [point(1, a=1.0)])
    with desk.store.begin() as work:
        lease = work.jobs.lease(desk.job.id, "driver-b", 99.0, 30.0)
    successor = SqlBook(desk.store, desk.study.id, lease)
    again = dataclasses.replace(
        successor.load().trials[0], attempt=Attempt(trial=0, number=2, token="new"), cost_s=12.0, last_step=2
    )
    successor.save(again, [point(2, a=2.0)])
    assert [p.step for p in successor.load().curves[0]] == [1, 2]


def test_a_save_that_fails_is_forgotten_as_a_whole(desk, make_trial: Callable) -> None:
    bad = Event(at=1.0, kind=None, text="kind may not be null")  # type: ignore[arg-type]
    with pytest.raises(Exception, match="NOT NULL"):
        desk.book.save(make_trial(), [point(1, a=1.0)], [bad])
    assert desk.book.load().trials == []
    desk.book.save(make_trial(), [point(1, b=1.0)])
    with desk.store.read() as work:
        assert work.trials.get(desk.job.id, 0).metrics == {"b": 1.0}


def test_a_failed_save_of_a_successor_does_not_cost_what_was_known(desk, make_trial: Callable) -> None:
    desk.book.save(make_trial(), [point(1, a=1.0)])
    successor = reopened(desk)
    bad = Event(at=1.0, kind=None, text="kind may not be null")  # type: ignore[arg-type]
    with pytest.raises(Exception, match="NOT NULL"):
        successor.save(make_trial(), [point(2, b=2.0)], [bad])
    successor.save(make_trial(), [point(2, c=3.0)])
    with desk.store.read() as work:
        assert work.trials.get(desk.job.id, 0).metrics == {"a": 1.0, "c": 3.0}


def test_the_last_value_of_each_metric_is_kept_across_books(any_desk, make_trial: Callable) -> None:
    any_desk.book.save(make_trial(), [point(1, train=1.0, eval=5.0)])
    reopened(any_desk).save(make_trial(), [point(2, train=2.0)])
    with any_desk.store.read() as work:
        assert work.trials.get(any_desk.job.id, 0).metrics == {"train": 2.0, "eval": 5.0}


def test_attempts_share_the_cost_of_their_trial(any_desk, make_trial: Callable) -> None:
    first, second = (Attempt(trial=0, number=n, token=f"t{n}") for n in (1, 2))
    start = [Event(at=200.0, kind="trial.attempt", text="go", trial=0)]
    again = [Event(at=300.0, kind="trial.attempt", text="again", trial=0)]
    any_desk.book.save(make_trial(attempt=first), (), start)
    any_desk.book.save(make_trial(attempt=first, cost_s=10.0, last_step=4))
    any_desk.book.save(
        make_trial(state=TrialState.QUEUED, attempt=first, cost_s=12.0, last_step=5, error_kind=EndKind.NODE)
    )
    book = reopened(any_desk)
    book.save(make_trial(attempt=second, cost_s=12.0), (), again)
    book.save(make_trial(attempt=second, cost_s=20.0, state=TrialState.COMPLETED, ended_at=400.0, value=1.0))
    with any_desk.store.read() as work:
        one, two = work.trials.attempts(any_desk.job.id, 0)
        assert work.trials.totals([any_desk.job.id])[any_desk.job.id].cost_s == 20.0
    assert (one.cost_s, one.outcome, one.token, one.last_step) == (12.0, EndKind.NODE, "t1", 5)
    assert (two.cost_s, two.outcome, two.token) == (8.0, EndKind.FINISHED, "t2")
    assert (one.started_at, two.started_at, two.ended_at) == (200.0, 300.0, 400.0)


def test_an_attempt_that_was_never_ended_is_closed_by_the_next(desk, make_trial: Callable) -> None:
    desk.book.save(make_trial(cost_s=3.0))
    event = Event(at=500.0, kind="trial.attempt", text="after the crash", trial=0)
    reopened(desk).save(make_trial(attempt=Attempt(trial=0, number=2, token="t2"), cost_s=3.0), (), [event])
    with desk.store.read() as work:
        one, two = work.trials.attempts(desk.job.id, 0)
    assert (one.outcome, one.ended_at) == (EndKind.UNKNOWN, 500.0)
    assert (two.outcome, two.ended_at, two.cost_s) == (None, None, 0.0)


def test_a_trial_that_reports_step_by_step_is_stored_whole(any_desk, make_trial: Callable) -> None:
    start = [Event(at=200.0, kind="trial.attempt", text="go", trial=0)]
    any_desk.book.save(make_trial(), (), start)
    for step in (1, 2, 2):
        any_desk.book.save(make_trial(last_step=step, cost_s=2.0 * step), [point(step, a=float(step))])
    last = make_trial(last_step=3, cost_s=7.0, config={"a": 1}, violations={"a <= 1": 2.0})
    any_desk.book.save(last, [point(3, b=9.0)])
    history = reopened(any_desk).load()
    assert history.trials == [last]
    assert history.curves == {0: [point(1, a=1.0), point(2, a=2.0), point(3, b=9.0)]}
    with any_desk.store.read() as work:
        (attempt,) = work.trials.attempts(any_desk.job.id, 0)
        assert work.trials.get(any_desk.job.id, 0).metrics == {"a": 2.0, "b": 9.0}
    assert (attempt.last_step, attempt.cost_s, attempt.started_at, attempt.outcome) == (3, 7.0, 200.0, None)


def test_a_changed_configuration_is_written_too(desk, make_trial: Callable) -> None:
    desk.book.save(make_trial())
    desk.book.save(make_trial(config={"a": 1}))
    desk.book.save(make_trial(config={"a": 2}, params={"b": [1, None]}))
    assert desk.book.load().trials[0].config == {"a": 2}
    assert desk.book.load().trials[0].params == {"b": [1, None]}


def test_events_are_numbered_in_the_order_of_the_saves(any_desk, make_trial: Callable) -> None:
    for number in range(3):
        event = Event(at=9.0, kind="trial.state", text=f"event {number}", trial=number, data={"x": math.nan})
        any_desk.book.save(make_trial(number), (), [event])
    with any_desk.store.read() as work:
        records = [record for record in work.trials.events(any_desk.job.id) if record.event.trial is not None]
        assert [record.event.text for record in records] == ["event 0", "event 1", "event 2"]
        assert records[0].event.data == {"x": None}
        assert work.trials.events(any_desk.job.id, after=records[0].id) == tuple(records[1:])
        assert len(work.trials.events(any_desk.job.id, limit=2)) == 2


def test_two_studies_do_not_see_each_other(make_desk: Callable, store, make_trial: Callable) -> None:
    desk = make_desk(store, stages=("one", "two"))
    with store.read() as work:
        second = work.jobs.studies(desk.job.id)[1]
    assert (second.name, second.title) == ("quick-1/two", "two")
    other = SqlBook(desk.store, second.id, desk.lease, stage=1)
    desk.book.save(make_trial(), [point(1, a=1.0)])
    other.save(make_trial(value=3.0))
    assert desk.book.load().trials[0].value is None
    assert other.load().curves == {0: []}
    with desk.store.read() as work:
        assert [record.trial.value for record in work.trials.list(desk.job.id, stage=1)] == [3.0]


def test_deleting_a_job_takes_its_rows_along(any_desk, make_trial: Callable) -> None:
    any_desk.book.save(make_trial(), [point(1, a=1.0)], [Event(at=1.0, kind="k", text="t", trial=0)])
    with any_desk.store.begin() as work:
        work.connection.execute(text("DELETE FROM autotune_jobs"))
        for table in ("studies", "trials", "attempts", "points", "events"):
            assert work.connection.execute(text(f"SELECT count(*) FROM autotune_{table}")).scalar() == 0


def test_renewals_from_another_thread_do_not_disturb_the_saves(desk, make_trial: Callable) -> None:
    import threading

    failures: list[Exception] = []

    def renew() -> None:
        try:
            for now in range(50):
                with desk.store.begin() as work:
                    work.jobs.renew(desk.lease, float(now), 30.0)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shall see it
            failures.append(error)

    thread = threading.Thread(target=renew)
    thread.start()
    for step in range(50):
        desk.book.save(make_trial(last_step=step), [point(step, a=1.0)])
    thread.join()
    assert failures == []
    assert len(desk.book.load().curves[0]) == 50
    with desk.store.begin() as work, pytest.raises(ConflictError):
        work.jobs.lease(desk.job.id, "driver-b", 60.0, 30.0)


def test_saves_keep_up_with_many_trials(desk, make_trial: Callable) -> None:
    config = {f"trainer.group.key_{number}": number for number in range(100)}
    metrics = {f"group/metric_{number}": float(number) for number in range(25)}
    trial = make_trial(config=config)
    desk.book.save(trial)
    started = time.perf_counter()
    for step in range(200):
        moved = dataclasses.replace(trial, last_step=step)
        desk.book.save(moved, [Point(step=step, time=1.0, metrics=metrics)])
    # 880 a second were measured on an idle machine; the bound is for a busy one.
    assert 200 / (time.perf_counter() - started) > 60


def test_a_new_job_starts_with_an_empty_history(store: Store) -> None:
    with store.begin() as work:
        job = work.jobs.add(NewJob(name="empty", document={}), 1.0)
        lease = work.jobs.lease(job.id, "a", 1.0, 1.0)
        study = work.jobs.studies(job.id)[0]
    history = SqlBook(store, study.id, lease).load()
    assert (history.trials, history.curves) == ([], {})
