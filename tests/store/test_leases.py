import multiprocessing

import pytest

from autotune.errors import ConflictError, LeaseLostError, NotFoundError
from autotune.states import JobState
from autotune.store import NewJob, Store


@pytest.fixture
def jobs(any_store: Store) -> Store:
    with any_store.begin() as work:
        for name, priority, now in (("low", 0, 1.0), ("high", 5, 3.0), ("older", 5, 2.0)):
            work.jobs.add(NewJob(name=name, document={}, priority=priority), now)
    return any_store


def test_only_one_driver_holds_a_job(jobs: Store) -> None:
    with jobs.begin() as work:
        work.jobs.lease("low-1", "a", 0.0, 10.0)
        with pytest.raises(ConflictError, match="driven by a") as caught:
            work.jobs.lease("low-1", "b", 5.0, 10.0)
    assert not isinstance(caught.value, LeaseLostError)


def test_the_token_grows_by_one_each_time(jobs: Store) -> None:
    with jobs.begin() as work:
        first = work.jobs.lease("low-1", "a", 0.0, 10.0)
        second = work.jobs.lease("low-1", "b", 10.0, 10.0)
        work.jobs.release(second)
        third = work.jobs.lease("low-1", "a", 10.0, 10.0)
    assert [lease.token for lease in (first, second, third)] == [1, 2, 3]


def test_a_lease_expires_exactly_at_its_end(jobs: Store) -> None:
    with jobs.begin() as work:
        work.jobs.lease("low-1", "a", 0.0, 10.0)
        with pytest.raises(ConflictError):
            work.jobs.lease("low-1", "b", 9.999, 10.0)
        assert work.jobs.lease("low-1", "b", 10.0, 10.0).owner == "b"


def test_renewing_prolongs_and_keeps_the_token(jobs: Store) -> None:
    with jobs.begin() as work:
        lease = work.jobs.lease("low-1", "a", 0.0, 10.0)
        renewed = work.jobs.renew(lease, 8.0, 10.0)
        assert (renewed.token, renewed.expires) == (lease.token, 18.0)
        with pytest.raises(ConflictError):
            work.jobs.lease("low-1", "b", 12.0, 10.0)


def test_an_expired_lease_that_nobody_took_can_be_renewed(jobs: Store) -> None:
    with jobs.begin() as work:
        lease = work.jobs.lease("low-1", "a", 0.0, 10.0)
        assert work.jobs.renew(lease, 99.0, 10.0).expires == 109.0


def test_a_lost_lease_can_neither_be_renewed_nor_released(jobs: Store) -> None:
    with jobs.begin() as work:
        lost = work.jobs.lease("low-1", "a", 0.0, 10.0)
        kept = work.jobs.lease("low-1", "a", 10.0, 10.0)  # the same owner again: still another lease
        for call in (lambda: work.jobs.renew(lost, 11.0, 10.0), lambda: work.jobs.release(lost)):
            with pytest.raises(LeaseLostError):
                call()
        assert work.jobs.renew(kept, 11.0, 10.0).token == kept.token


def test_releasing_twice_is_harmless_and_renewing_afterwards_is_not(jobs: Store) -> None:
    with jobs.begin() as work:
        lease = work.jobs.lease("low-1", "a", 0.0, 10.0)
        work.jobs.release(lease)
        work.jobs.release(lease)
        with pytest.raises(LeaseLostError, match="free now"):
            work.jobs.renew(lease, 1.0, 10.0)


def test_a_dead_owner_is_revoked_at_once_and_fenced_out(jobs: Store) -> None:
    with jobs.begin() as work:
        dead = work.jobs.lease("low-1", "a", 0.0, 1000.0)
        assert not work.jobs.revoke("low-1", "somebody else")
        assert work.jobs.revoke("low-1", "a")
        assert work.jobs.lease("low-1", "b", 1.0, 10.0).token == dead.token + 1
        with pytest.raises(LeaseLostError):
            work.jobs.renew(dead, 2.0, 10.0)


def test_claims_follow_priority_then_age(jobs: Store) -> None:
    with jobs.begin() as work:
        due = work.jobs.next_queued(9.0)
        assert due is not None
        assert due.id == "older-1"
        claimed = [work.jobs.claim("a", 9.0, 10.0) for _ in range(4)]
    assert [lease and lease.job for lease in claimed] == ["older-1", "high-1", "low-1", None]


def test_a_job_that_runs_is_not_claimed_but_known_as_abandoned(jobs: Store) -> None:
    with jobs.begin() as work:
        lease = work.jobs.lease("high-1", "a", 0.0, 10.0)
        work.jobs.set_state("high-1", JobState.RUNNING, 1.0, lease=lease)
        assert work.jobs.abandoned(9.0) == ()
        assert [job.id for job in work.jobs.abandoned(10.0)] == ["high-1"]
        due = work.jobs.next_queued(99.0)
        assert due is not None
        assert due.id == "older-1"


def test_a_job_that_is_not_there_cannot_be_leased(jobs: Store) -> None:
    with jobs.begin() as work, pytest.raises(NotFoundError, match="none-1"):
        work.jobs.lease("none-1", "a", 0.0, 10.0)


def _claim_all(url: str, owner: str, barrier, answers) -> None:
    store = Store(url)
    with store.read() as work:
        work.jobs.next_queued(1.0)  # connect before the race
    barrier.wait(60)
    won, token_of_contested = [], None
    try:
        with store.begin() as work:
            token_of_contested = work.jobs.lease("contested-1", owner, 1.0, 100.0).token
    except ConflictError:
        pass
    while True:
        with store.begin() as work:
            lease = work.jobs.claim(owner, 1.0, 100.0)
        if lease is None:
            break
        won.append(lease.job)
    store.close()
    answers.put((owner, token_of_contested, won))


def test_of_two_processes_exactly_one_wins_each_lease(any_store: Store) -> None:
    url = any_store.url.render_as_string(hide_password=False)
    with any_store.begin() as work:
        work.jobs.add(NewJob(name="contested", document={}, priority=9), 1.0)
        for _ in range(30):
            work.jobs.add(NewJob(name="many", document={}), 1.0)
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(2), context.Queue()
    racers = [context.Process(target=_claim_all, args=(url, name, barrier, answers)) for name in ("a", "b")]
    for process in racers:
        process.start()
    results = [answers.get(timeout=90) for _ in racers]
    for process in racers:
        process.join(30)
    assert sorted(str(token) for _, token, _ in results) == ["1", "None"]
    won = [job for _, _, jobs in results for job in jobs]
    assert len(won) == len(set(won)) == 30
