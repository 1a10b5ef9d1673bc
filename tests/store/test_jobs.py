from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import ConflictError, IllegalTransitionError, LeaseLostError, NotFoundError, UsageError
from autotune.states import JobState
from autotune.store import Job, JobError, NewJob, Store
from autotune.store.jobs import _cursor, _read_cursor


def add(store: Store, name: str = "quick", now: float = 1.0, **more: object) -> Job:
    with store.begin() as work:
        return work.jobs.add(NewJob(name=name, document={"name": name}, **more), now)  # type: ignore[arg-type]


def test_ids_count_within_their_name(any_store: Store) -> None:
    ids = [add(any_store, name).id for name in ("quick", "quick", "slow", "quick", "quick-1")]
    assert ids == ["quick-1", "quick-2", "slow-1", "quick-3", "quick-1-1"]


def test_a_new_job_is_queued_with_its_first_study_and_an_event(any_store: Store) -> None:
    job = add(any_store, source="name: quick\n", file="space.yaml", space_hash="abc", priority=3)
    assert (job.state, job.source, job.file, job.space_hash, job.priority) == (
        JobState.QUEUED,
        "name: quick\n",
        "space.yaml",
        "abc",
        3,
    )
    with any_store.read() as work:
        assert [(study.stage, study.name) for study in work.jobs.studies(job.id)] == [(0, "quick-1")]
        assert [record.event.kind for record in work.trials.events(job.id)] == ["job.state"]


def test_the_same_key_and_body_find_the_same_job(any_store: Store) -> None:
    first = add(any_store, idempotency_key="k", body_hash="h")
    assert add(any_store, idempotency_key="k", body_hash="h", now=9.0) == first
    with any_store.read() as work:
        assert len(work.jobs.list().items) == 1
        assert len(work.trials.events(first.id)) == 1


def test_the_same_key_with_another_body_is_a_conflict(any_store: Store) -> None:
    add(any_store, idempotency_key="k", body_hash="h")
    with pytest.raises(ConflictError, match="quick-1"):
        add(any_store, idempotency_key="k", body_hash="other")


def test_jobs_without_a_key_never_collide(store: Store) -> None:
    assert add(store).id != add(store).id


def test_a_misspelt_job_gets_the_nearest_ids(store: Store) -> None:
    add(store, "quickstart")
    with store.read() as work, pytest.raises(NotFoundError, match="quickstrat-1") as caught:
        work.jobs.get("quickstrat-1")
    assert "quickstart-1" in caught.value.hint


def test_what_json_cannot_hold_is_stored_as_null(any_store: Store) -> None:
    with any_store.begin() as work:
        document = {"a": float("nan"), "b": [float("inf"), "nul\x00", "half \ud800"], "c": True, "d": 3}
        job = work.jobs.add(NewJob(name="odd", document=document, source="x\x00y"), 1.0)
    assert job.document == {"a": None, "b": [None, "nul", "half ?"], "c": True, "d": 3}
    assert job.source == "xy"


def test_a_document_keeps_the_order_of_its_keys(any_store: Store) -> None:
    with any_store.begin() as work:
        job = work.jobs.add(NewJob(name="ordered", document={"z": 1, "a": {"y": 2, "b": 3}}), 1.0)
    assert list(job.document) == ["z", "a"]
    assert list(job.document["a"]) == ["y", "b"]


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_together_are_the_whole_list_newest_first(any_store: Store, limit: int) -> None:
    times = [5.0, 1.0, 5.0, 3.0, 1.0, 0.1 + 0.2]
    for place, now in enumerate(times):
        add(any_store, f"job{place}", now)
    seen, after = [], None
    with any_store.read() as work:
        while True:
            page = work.jobs.list(limit=limit, after=after)
            assert len(page.items) <= limit
            seen += [(job.created_at, job.id) for job in page.items]
            after = page.next
            if after is None:
                break
    assert seen == sorted(seen, reverse=True)
    assert len(seen) == len(times)


@given(st.floats(allow_nan=False, allow_infinity=False), st.from_regex(r"[a-z0-9-]{1,40}", fullmatch=True))
@settings(max_examples=50, deadline=None)
def test_a_cursor_comes_back_as_it_went(created: float, name: str) -> None:
    from types import SimpleNamespace

    assert _read_cursor(_cursor(SimpleNamespace(created_at=created, id=name))) == (created, name)  # type: ignore[arg-type]


@pytest.mark.parametrize("cursor", ["", "%%%", "bm90IG91cnM", "é"])
def test_a_foreign_cursor_is_a_usage_error(store: Store, cursor: str) -> None:
    with store.read() as work, pytest.raises(UsageError, match="cursor"):
        work.jobs.list(after=cursor)


def test_a_list_can_be_cut_to_states_and_names(store: Store) -> None:
    add(store, "a")
    add(store, "b")
    with store.begin() as work:
        work.jobs.set_state("a-1", JobState.CANCELLED, 2.0)
    with store.read() as work:
        assert [job.id for job in work.jobs.list(states=[JobState.CANCELLED]).items] == ["a-1"]
        assert [job.id for job in work.jobs.list(name="b").items] == ["b-1"]


def test_a_state_change_writes_its_event_with_it(any_store: Store) -> None:
    job = add(any_store)
    with any_store.begin() as work:
        work.jobs.set_state(job.id, JobState.RUNNING, 5.0)
        failed = work.jobs.set_state(
            job.id, JobState.FAILED, 9.0, error=JobError(kind="node", message="gone", hint="again")
        )
    assert (failed.started_at, failed.ended_at) == (5.0, 9.0)
    assert failed.error == JobError(kind="node", message="gone", hint="again")
    with any_store.read() as work:
        events = [record.event for record in work.trials.events(job.id)]
    assert [event.data["to"] for event in events] == ["queued", "running", "failed"]
    assert "gone" in events[-1].text


def test_an_illegal_state_change_changes_nothing(any_store: Store) -> None:
    job = add(any_store)
    with pytest.raises(IllegalTransitionError, match="queued"), any_store.begin() as work:
        work.jobs.set_state(job.id, JobState.COMPLETED, 5.0)
    with any_store.read() as work:
        assert work.jobs.get(job.id) == job
        assert len(work.trials.events(job.id)) == 1


def test_a_resumed_job_forgets_its_error_and_its_wishes(store: Store) -> None:
    job = add(store)
    with store.begin() as work:
        work.jobs.set_state(job.id, JobState.RUNNING, 2.0)
        work.jobs.request(job.id, "cancel", 3.0)
        work.jobs.set_state(job.id, JobState.FAILED, 4.0, error=JobError(kind="x", message="y"))
        again = work.jobs.set_state(job.id, JobState.QUEUED, 5.0)
    assert (again.error, again.requested, again.ended_at, again.started_at) == (None, None, None, 2.0)


def test_a_driver_without_its_lease_cannot_change_the_state(any_store: Store) -> None:
    job = add(any_store)
    with any_store.begin() as work:
        old = work.jobs.lease(job.id, "a", 0.0, 10.0)
    with any_store.begin() as work:
        work.jobs.lease(job.id, "b", 11.0, 10.0)
    with pytest.raises(LeaseLostError), any_store.begin() as work:
        work.jobs.set_state(job.id, JobState.RUNNING, 12.0, lease=old)
    with any_store.read() as work:
        assert work.jobs.get(job.id).state is JobState.QUEUED


def test_a_wish_is_left_once_and_can_be_taken_back(any_store: Store) -> None:
    job = add(any_store)
    with any_store.begin() as work:
        assert work.jobs.request(job.id, "cancel", 2.0).requested == "cancel"
        work.jobs.request(job.id, "cancel", 3.0)
        assert work.jobs.request(job.id, None, 4.0).requested is None
        kinds = [record.event.kind for record in work.trials.events(job.id)]
    assert kinds == ["job.state", "job.request", "job.request"]


def test_a_wish_to_a_job_that_has_ended_is_refused(store: Store) -> None:
    job = add(store)
    with store.begin() as work:
        work.jobs.set_state(job.id, JobState.CANCELLED, 2.0)
    with store.begin() as work, pytest.raises(IllegalTransitionError):
        work.jobs.request(job.id, "cancel", 3.0)
    with store.begin() as work, pytest.raises(UsageError, match="cancel"):
        work.jobs.request(job.id, "dance", 3.0)


def test_the_active_job_of_a_name_is_the_newest_that_has_not_ended(store: Store) -> None:
    for _ in range(3):
        add(store)
    with store.begin() as work:
        work.jobs.set_state("quick-3", JobState.CANCELLED, 2.0)
        active = work.jobs.active_with_name("quick")
        assert active is not None
        assert active.id == "quick-2"
        assert work.jobs.active_with_name("other") is None


def test_places_are_remembered(store: Store) -> None:
    job = add(store)
    with store.begin() as work:
        work.jobs.set_places(job.id, directory="/jobs/quick-1")
        work.jobs.set_places(job.id, mlflow_run="abc")
        work.jobs.set_places(job.id)
        found = work.jobs.get(job.id)
    assert (found.directory, found.mlflow_run) == ("/jobs/quick-1", "abc")


def test_totals_of_a_job_without_trials_are_zero(desk, make_trial: Callable) -> None:
    with desk.store.read() as work:
        assert work.trials.totals([desk.job.id, "none-1"])["none-1"].cost_s == 0.0
