"""What becomes of a job whose driver is told to go, or meets an outage."""

from collections.abc import Callable

import pytest

from autotune.errors import UnreachableError, UsageError
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
