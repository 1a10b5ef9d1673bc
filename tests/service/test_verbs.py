"""What a person does to a job, with and without a driver at work."""

import pytest

from autotune.errors import ConflictError, InvalidSpaceError, NotFoundError, UsageError
from autotune.search.closing import Closing
from autotune.search.coordinator import Coordinator
from autotune.search.types import Done, Launch, Wait
from autotune.service.spaces import resolve_document
from autotune.service.steering import Steering
from autotune.states import JobState, TrialState
from autotune.store import SqlBook


@pytest.fixture
def job(service, source):
    return service.submit(source, "space.yaml")[0].id


@pytest.fixture
def lease(service, job):
    """A driver elsewhere works on the job."""
    with service.store.begin() as work:
        lease = work.jobs.lease(job, "elsewhere/1/x", service.clock.now(), 30.0)
        work.jobs.set_state(job, JobState.RUNNING, service.clock.now(), lease=lease)
    return lease


@pytest.fixture
def search(service, job, lease):
    """The driver's coordinator, and what it looks at every second."""
    with service.store.read() as work:
        record, study = work.jobs.get(job), work.jobs.studies(job)[0]
    resolved = resolve_document(record.document, record.file)
    book = SqlBook(service.store, study.id, lease)
    coordinator = Coordinator(
        resolved.space, resolved.base, book, fence="f", total_steps=resolved.steps, seed_path=resolved.seed_path
    )
    steering = Steering(service.store, lease, service.clock, record)
    steering.look(coordinator, 1000.0)
    return coordinator, lambda: steering.look(coordinator, 1000.0)


def requested(service, job):
    with service.store.read() as work:
        return work.jobs.get(job).requested


def kinds(service, job):
    return [event.kind for event in service.events(job)]


def test_pausing_and_resuming_a_running_job_reaches_its_driver(service, job, search):
    coordinator, look = search
    assert isinstance(coordinator.next_trial(1000.0), Launch)
    assert service.pause(job).state == "paused"
    look()
    assert isinstance(coordinator.next_trial(1001.0), Wait)
    assert service.pause(job).state == "paused"
    assert service.resume(job).state == "running"
    look()
    assert isinstance(coordinator.next_trial(1002.0), Launch)


def test_a_paused_job_at_rest_is_left_alone_until_it_is_resumed(service, job, lease):
    service.pause(job)
    with service.store.begin() as work:
        work.jobs.release(lease)
    service.clock.advance(100.0)
    assert service.requeue_abandoned() == []
    assert service.resume(job).state == "queued"
    assert requested(service, job) is None


def test_a_paused_job_whose_driver_died_gets_another_that_pauses_it_again(service, job, search):
    service.pause(job)
    service.clock.advance(100.0)
    assert service.requeue_abandoned() == [job]
    assert (service.job(job).state, requested(service, job)) == ("queued", "pause")
    with service.store.begin() as work:
        lease = work.jobs.lease(job, "elsewhere/2/x", service.clock.now(), 30.0)
        record = work.jobs.set_state(job, JobState.RUNNING, service.clock.now(), lease=lease)
    coordinator, _ = search
    Steering(service.store, lease, service.clock, record).look(coordinator, 1000.0)
    assert coordinator.held
    assert service.job(job).state == "paused"


def test_a_queued_job_can_be_paused_before_it_begins(service, job):
    assert service.pause(job).state == "paused"
    with service.store.begin() as work:
        assert work.jobs.claim("somebody/1/x", service.clock.now(), 30.0) is None
    assert service.resume(job).state == "queued"


def test_stopping_a_running_job_lets_its_trials_finish(service, job, search):
    coordinator, look = search
    launch = coordinator.next_trial(1000.0)
    assert service.stop(job).state == "stopping"
    look()
    assert coordinator.closing is Closing.STOPPED
    assert isinstance(coordinator.next_trial(1001.0), Wait)
    assert coordinator.trials[launch.attempt.trial].state is TrialState.RUNNING


def test_stopping_a_job_without_a_driver_queues_it_to_be_closed(service, job, search, lease):
    coordinator, _ = search
    coordinator.next_trial(1000.0)
    service.pause(job)
    with service.store.begin() as work:
        work.jobs.release(lease)
    assert service.stop(job).state == "queued"
    assert requested(service, job) == "stop"


def test_stopping_a_job_that_never_began_cancels_it(service, job):
    assert service.stop(job).state == "cancelled"


def test_a_wish_to_cancel_outlives_the_driver(service, job, lease):
    service.cancel(job)
    service.clock.advance(100.0)
    assert service.requeue_abandoned() == [job]
    assert requested(service, job) == "cancel"


def test_resuming_takes_a_wish_back_that_nobody_has_followed(service, job, lease):
    service.cancel(job)
    service.clock.advance(100.0)
    service.requeue_abandoned()
    assert service.resume(job).state == "queued"
    assert requested(service, job) is None


@pytest.mark.parametrize("verb", ["pause", "stop", "cancel", "edit", "enqueue"])
def test_nothing_can_be_done_to_a_job_that_has_ended(service, job, verb):
    service.cancel(job)
    act = getattr(service, verb)
    with pytest.raises(ConflictError, match="is cancelled already; there is nothing to"):
        act(job, *{"edit": [None, 3], "enqueue": [{}]}.get(verb, []))


@pytest.mark.parametrize("verb", ["pause", "stop", "cancel", "resume"])
def test_an_unknown_job_is_not_found(service, verb):
    with pytest.raises(NotFoundError, match="no job"):
        getattr(service, verb)("nothing-1")


def test_a_job_that_is_stopping_cannot_be_paused(service, job, lease):
    service.stop(job)
    with pytest.raises(ConflictError, match="about to end"):
        service.pause(job)


def test_a_running_job_takes_another_budget(service, job, search):
    coordinator, look = search
    assert service.edit(job, budget={"trials": 9, "parallel": 1, "wall_clock": "2h"}).budget_trials == 9
    look()
    assert isinstance(coordinator.next_trial(1000.0), Launch)
    assert isinstance(coordinator.next_trial(1000.0), Wait)
    service.edit(job, budget={"wall_clock": None})
    look()
    coordinator.next_trial(1e9)
    assert coordinator.closing is None
    assert kinds(service, job).count("job.edit") == 2


def test_a_cancelled_job_whose_driver_had_died_leaves_no_trial_running(service, job, lease, search):
    coordinator, _ = search
    coordinator.next_trial(1000.0)
    with service.store.begin() as work:
        work.jobs.revoke(job, lease.owner)
        work.jobs.set_state(job, JobState.QUEUED, 1000.0, reason="its driver was killed")
    assert service.trial(job, 0).state == "running"
    assert service.cancel(job).state == "cancelled"
    assert service.trial(job, 0).state == "cancelled"
    assert service.resume(job).state == "queued"


def test_a_higher_priority_is_started_first(service, source):
    first = service.submit(source, "a.yaml")[0].id
    second = service.submit(source.replace("name: small", "name: other"), "b.yaml")[0].id
    service.edit(second, priority=5)
    with service.store.begin() as work:
        assert work.jobs.claim("somebody/1/x", service.clock.now(), 30.0).job == second
        assert work.jobs.claim("somebody/2/x", service.clock.now(), 30.0).job == first


def test_a_budget_below_what_was_used_is_a_conflict_and_changes_nothing(service, job, search):
    coordinator, _ = search
    coordinator.next_trial(1000.0)
    coordinator.next_trial(1000.0)
    before = service.job(job)
    with pytest.raises(ConflictError, match=r"got 1, but 2 trials exist already") as caught:
        service.edit(job, budget={"trials": 1})
    assert f"autotune stop {job}" in caught.value.hint
    assert service.job(job) == before


@pytest.mark.parametrize(
    ("budget", "kind", "text"),
    [
        ({"trials": 0}, InvalidSpaceError, r"cannot be changed so: budget\.trials"),
        ({"parallel": -1}, InvalidSpaceError, "parallel"),
        ({"wall_clock": "soon"}, InvalidSpaceError, "wall_clock"),
        ({"steps": 10}, UsageError, r"budget\.steps cannot be changed .*; allowed: trials, parallel"),
        ({}, UsageError, "nothing to change"),
    ],
)
def test_a_budget_that_is_not_allowed_is_refused(service, job, budget, kind, text):
    with pytest.raises(kind, match=text):
        service.edit(job, budget=budget)


def test_an_enqueued_configuration_is_what_the_search_tries_next(service, job, search):
    coordinator, look = search
    coordinator.next_trial(1000.0)
    event = service.enqueue(job, {"lr": 5e-4})
    look()
    launch = coordinator.next_trial(1000.0)
    assert launch.config["trainer.optim.lr"] == 5e-4
    assert service.trial(job, launch.attempt.trial).source == f"enqueued:{event.id}"


def test_what_was_enqueued_while_no_driver_looked_is_tried_once(service, job, search):
    service.enqueue(job, {"lr": 5e-4})
    coordinator, look = search
    look()
    look()
    launches = [coordinator.next_trial(1000.0) for _ in range(2)]
    assert coordinator.trials[launches[0].attempt.trial].source == "default"
    assert coordinator.trials[1].source.startswith("enqueued:")
    assert isinstance(coordinator.next_trial(1000.0), Wait | Done)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"lr": 1.0}, r"1.0 does not lie in the domain of trainer\.optim\.lr: 1e-05 to 0\.001, log"),
        ({"lr": float("nan")}, "does not lie in the domain"),
        ({"lrr": 1e-4}, r"'lrr' is not a searched parameter .* Did you mean"),
        ({"ppo_epochs": "two"}, "does not lie in the domain"),
        ({"ppo_epochs": True}, "does not lie in the domain"),
        ({"ppo_epochs": {"_target_": "os.system"}}, "does not lie in the domain"),
    ],
)
def test_a_configuration_outside_the_space_is_refused_and_not_stored(service, job, params, text):
    with pytest.raises(InvalidSpaceError, match=text):
        service.enqueue(job, params)
    assert "job.enqueue" not in kinds(service, job)


def test_an_enqueued_configuration_must_meet_require(service, source):
    job = service.submit(source + "require: [trainer.ppo_epochs < 3]\n", "space.yaml")[0].id
    with pytest.raises(InvalidSpaceError, match=r"'trainer.ppo_epochs < 3' does not hold \(trainer.ppo_epochs = 4\)"):
        service.enqueue(job, {"ppo_epochs": 4})


def test_enqueuing_past_the_budget_says_how_to_raise_it(service, job):
    for epochs in range(1, 5):
        service.enqueue(job, {"ppo_epochs": epochs})
    with pytest.raises(ConflictError, match=r"budget of 4 trials \(4 enqueued ones wait\)") as caught:
        service.enqueue(job, {"lr": 2e-4})
    assert caught.value.hint.endswith(f"autotune edit {job} --trials 5")
