"""What becomes of a job whose driver is told to go, or meets an outage."""

from collections.abc import Callable
from contextlib import nullcontext

import pytest

from autotune.errors import UnreachableError, UsageError
from autotune.search.types import Continue, Done, EndKind, Outcome, Stop
from autotune.service.driver import MAX_TRIES, JobDriver
from autotune.settings import Settings


@pytest.fixture
def make_driver(service, source, monkeypatch) -> Callable[..., JobDriver]:
    """A driver whose search ends with an error."""
    job = service.submit(source, "space.yaml")[0].id

    def make(error: Exception | None = None, tries: int = 0) -> JobDriver:
        with service.store.begin() as work:
            lease = work.jobs.lease(job, "tester/0/x", service.clock.now(), 60.0)
        driver = JobDriver(service, lease, tries)

        def broken(job, *, by_hand):
            raise error or UnreachableError("Ray does not answer.", hint="Look at its log.")

        monkeypatch.setattr(driver, "_search", broken)
        return driver

    return make


def only(service):
    (job,) = service.jobs().items
    return job


def said(service):
    return [event.text for event in service.events(only(service).id) if event.kind == "job.state"]


def test_what_breaks_after_the_driver_was_told_to_go_does_not_fail_the_job(service, make_driver):
    for error in (None, UsageError("no such GPU."), ValueError("a bug")):
        driver = make_driver(error)
        driver.interrupt()
        assert not driver.run()
        assert (only(service).state, only(service).error) == ("queued", None)


def test_what_breaks_by_itself_fails_it_with_the_reason(service, make_driver):
    assert not make_driver(UsageError("one trial needs 8 GPU, this machine has 0.")).run()
    assert only(service).state == "failed"
    assert only(service).error.message == "one trial needs 8 GPU, this machine has 0."


def test_a_ray_that_does_not_answer_leaves_the_job_queued_with_what_it_waits_for(service, make_driver):
    assert make_driver().run()
    assert (only(service).state, only(service).error) == ("queued", None)
    assert said(service)[-1] == "running -> queued: waits: Ray does not answer. It is tried again."


def test_a_ray_of_our_own_that_never_starts_fails_the_job_after_some_tries(service, make_driver):
    assert not make_driver(tries=MAX_TRIES).run()
    assert (only(service).state, only(service).error.message) == ("failed", "Ray does not answer.")


def test_a_cluster_is_waited_for_however_long_it_takes(service, make_driver):
    service.settings = Settings(home=service.settings.home, ray_address="head:6379")
    assert make_driver(tries=1000).run()
    assert only(service).state == "queued"


@pytest.fixture
def driver(service, source, monkeypatch) -> JobDriver:
    """A driver whose trials do nothing but look what is wanted of the job, as Ray's loop does every second."""
    job = service.submit(source, "space.yaml")[0].id
    with service.store.begin() as work:
        lease = work.jobs.lease(job, "tester/0/x", service.clock.now(), 60.0)
    driver = JobDriver(service, lease)
    monkeypatch.setattr(driver, "_observers", lambda job, part, study: {})
    monkeypatch.setattr(driver, "_ray", lambda resolved: nullcontext())
    return driver


@pytest.mark.parametrize("how", ["drain", "interrupt"])
def test_a_driver_that_is_told_to_go_starts_nothing_more_and_leaves_the_job_queued(service, driver, monkeypatch, how):
    seen = []

    def run_trials(coordinator, resolved, study):
        first = coordinator.next_trial(service.clock.now())
        getattr(driver, how)()
        driver._poll(coordinator)
        seen.append(coordinator.on_heartbeat(first.attempt, 1.0, service.clock.now()))
        coordinator.on_end(first.attempt, Outcome(kind=EndKind.STOPPED, cost_s=1.0), service.clock.now())
        assert isinstance(coordinator.next_trial(service.clock.now()), Done)

    monkeypatch.setattr(driver, "_run_trials", run_trials)
    assert not driver.run()
    assert only(service).state == "queued"
    assert isinstance(seen[0], Continue if how == "drain" else Stop)
    assert service.trial(only(service).id, 0).state == "queued"


def test_a_driver_looks_past_a_database_that_is_away_for_a_moment(service, driver, monkeypatch):
    calls = []

    def run_trials(coordinator, resolved, study):
        looked = driver._steering.look
        monkeypatch.setattr(driver._steering, "look", away)
        driver._poll(coordinator)
        monkeypatch.setattr(driver._steering, "look", looked)
        driver._poll(coordinator)
        driver.interrupt()
        driver._poll(coordinator)

    def away(*_):
        calls.append("away")
        raise UnreachableError("the database does not answer.")

    monkeypatch.setattr(driver, "_run_trials", run_trials)
    assert not driver.run()
    assert calls == ["away"]
    assert only(service).state == "queued"


def test_a_job_whose_mirrors_heard_everything_is_noted_as_mirrored(service, driver, monkeypatch):
    monkeypatch.setattr(driver, "_run_trials", lambda coordinator, resolved, study: None)
    driver.run()
    assert only(service).state == "failed"
    with service.store.read() as work:
        assert work.jobs.behind(service.clock.now()) == []


def test_a_job_whose_mirrors_did_not_hear_everything_is_seen_to_later(service, driver, monkeypatch):
    def deaf():
        raise ConnectionError("nobody listens")

    monkeypatch.setattr("autotune.service.driver.OBSERVERS_S", 0.1)
    monkeypatch.setattr(driver, "_observers", lambda job, part, study: {"deaf": deaf})
    monkeypatch.setattr(driver, "_run_trials", lambda coordinator, resolved, study: None)
    driver.run()
    with service.store.read() as work:
        assert work.jobs.behind(service.clock.now()) == [only(service).id]


def test_a_job_that_fails_leaves_no_trial_running(service, driver, monkeypatch):
    def run_trials(coordinator, resolved, study):
        first = coordinator.next_trial(service.clock.now())
        service.clock.advance(2.0)
        coordinator.on_metrics(first.attempt, 1, {"eval/reward": 1.0}, 2.0, service.clock.now())
        raise ValueError("a bug")

    monkeypatch.setattr(driver, "_run_trials", run_trials)
    with pytest.raises(ValueError, match="a bug"):
        driver.run()
    job = only(service)
    assert job.state == "failed"
    trial = service.trial(job.id, 0)
    assert (trial.state, trial.cost_s) == ("cancelled", 2.0)
    assert "the job has ended: ValueError: a bug" in trial.reason.text
    with service.store.read() as work:
        (attempt,) = work.trials.attempts(job.id, 0)
        assert work.jobs.behind(service.clock.now()) == [job.id]  # the mirrors have not heard of it
    assert (attempt.outcome, attempt.ended_at) == ("stopped", service.clock.now())
    assert "trial 0 is cancelled: the job has ended: ValueError: a bug" in [
        event.text for event in service.events(job.id)
    ]
    assert service.resume(job.id).state == "queued"
