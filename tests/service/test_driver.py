"""What becomes of a job whose driver is told to go."""

import pytest

from autotune.errors import UnreachableError
from autotune.service.driver import JobDriver


@pytest.fixture
def driver(service, source, monkeypatch):
    """A driver whose Ray does not start."""
    job = service.submit(source, "space.yaml")[0].id
    with service.store.begin() as work:
        lease = work.jobs.lease(job, "tester/0/x", service.clock.now(), 60.0)
    driver = JobDriver(service, lease)

    def no_ray(job, *, by_hand):
        raise UnreachableError("Ray does not start.", hint="Look at its log.")

    monkeypatch.setattr(driver, "_search", no_ray)
    return driver


def only(service):
    (job,) = service.jobs().items
    return job


def test_what_breaks_after_the_driver_was_told_to_go_does_not_fail_the_job(service, driver):
    driver.interrupt()
    driver.run()
    assert (only(service).state, only(service).error) == ("queued", None)


def test_what_breaks_by_itself_fails_it_with_the_reason(service, driver):
    driver.run()
    assert (only(service).state, only(service).error.message) == ("failed", "Ray does not start.")
