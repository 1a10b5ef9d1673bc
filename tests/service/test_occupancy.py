"""GPU slots and lease ages, from the store alone."""

import pytest

from autotune.search.types import Attempt, Trial
from autotune.service import occupancy as rooms
from autotune.service.occupancy import note_cluster
from autotune.states import JobState, TrialState
from autotune.store import NewJob, SqlBook


@pytest.fixture
def at_work(service):
    """A job at work whose two running trials hold two GPUs each; a third trial has ended."""
    with service.store.begin() as work:
        job = work.jobs.add(NewJob(name="busy", document={"resources": {"gpus": 2}}), service.clock.now())
        lease = work.jobs.lease(job.id, "host/1/x", service.clock.now(), service.settings.lease_s)
        work.jobs.set_state(job.id, JobState.RUNNING, service.clock.now(), lease=lease)
        study = work.jobs.studies(job.id)[0].id
    book = SqlBook(service.store, study, lease)
    for number, state in enumerate((TrialState.RUNNING, TrialState.RUNNING, TrialState.COMPLETED)):
        attempt = Attempt(trial=number, number=1, token=str(number))
        book.save(
            Trial(number=number, state=state, source="sampler", params={}, config={}, attempt=attempt, created_at=1.0)
        )
    return lease


def test_running_trials_hold_their_gpus(service, at_work, monkeypatch):
    monkeypatch.setattr(rooms, "_here", lambda: 8)
    found = service.occupancy()
    assert (found.gpus_busy, found.gpus) == (4.0, 8.0)


def test_a_lease_ages_until_it_is_renewed(service, at_work):
    service.clock.advance(7.0)
    assert service.occupancy().lease_age_s == 7.0
    with service.store.begin() as work:
        work.jobs.renew(at_work, service.clock.now(), service.settings.lease_s)
    assert service.occupancy().lease_age_s == 0.0
    service.clock.advance(1000.0)
    assert service.occupancy().lease_age_s == 1000.0, "a driver that is silent for long shows"


def test_nothing_is_held_when_no_driver_works(service):
    found = service.occupancy()
    assert (found.gpus_busy, found.lease_age_s) == (0.0, 0.0)


def test_the_gpus_of_a_cluster_are_those_that_a_driver_has_seen(service):
    cluster = service.settings.model_copy(update={"ray_address": "10.0.0.1:6379"})
    with service.store.read() as work:
        assert rooms.occupancy(work, cluster, 0.0).gpus is None
        note_cluster(cluster, {"CPU": 64.0, "GPU": 16.0})
        assert rooms.occupancy(work, cluster, 0.0).gpus == 16.0
