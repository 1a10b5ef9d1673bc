from __future__ import annotations

import pytest

from autotune.errors import ConflictError, InvalidSpaceError, NotFoundError, UsageError
from autotune.states import JobState
from autotune.store.values import JobError


def test_a_submitted_job_is_queued_with_its_space_file_beside_it(service, source):
    job, created = service.submit(source, "space.yaml")
    assert (job.id, job.state, created, job.steps, job.budget_trials) == ("small-1", "queued", True, 4, 4)
    assert (service.settings.job_dir("small-1") / "space.yaml").read_text() == source
    assert service.job("small-1") == job


def test_an_invalid_space_leaves_nothing_behind(service):
    with pytest.raises(InvalidSpaceError) as caught:
        service.submit("name: x\nsearch: {lrr: {float: [1, 0]}}\n", "bad.yaml")
    assert len(caught.value.problems) > 1
    assert service.jobs().items == []
    assert list(service.settings.root.glob("jobs/*")) == []


def test_a_wrong_trainer_configuration_is_named_with_its_place(service, source):
    with pytest.raises(InvalidSpaceError) as caught:
        service.submit(source.replace("data: digits", "trainer.gradclip: 1"), "bad.yaml")
    problem = caught.value.problems[0]
    assert (problem.file, problem.line) == ("bad.yaml", 4)
    assert "grad_clip" in str(problem)


def test_a_second_job_of_the_same_name_conflicts_while_the_first_is_at_work(service, source):
    service.submit(source, "space.yaml")
    with pytest.raises(ConflictError, match="job 'small-1' of the same name is queued already") as caught:
        service.submit(source, "space.yaml")
    assert "--name" in caught.value.hint
    service.cancel("small-1")
    assert service.submit(source, "space.yaml")[0].id == "small-2"


def test_the_same_idempotency_key_finds_the_first_job(service, source):
    first, created = service.submit(source, "space.yaml", "key")
    again, created_again = service.submit(source, "space.yaml", "key")
    assert (created, created_again) == (True, False)
    assert first.id == again.id
    with pytest.raises(ConflictError, match="was used for job"):
        service.submit(source.replace("trials: 4", "trials: 5").replace("name: small", "name: other"), "s.yaml", "key")


def test_a_plan_shows_the_first_proposals_and_stores_nothing(service, source):
    plan = service.plan(source, "space.yaml")
    assert (plan.trials, plan.steps, plan.max_steps, plan.pruners[0][:10]) == (4, 4, 16, "kl_ceiling")
    assert len(plan.proposals) == 4
    assert [parameter.path for parameter in plan.parameters] == ["trainer.optim.lr", "trainer.ppo_epochs"]
    assert plan.proposals[0]["trainer.optim.lr"] == plan.parameters[0].default
    assert any("few for 2 parameters" in warning for warning in plan.warnings) is False
    assert service.jobs().items == []


def test_the_best_trial_comes_with_its_overrides_and_the_default(service, source, drive):
    job, _ = service.submit(source, "space.yaml")
    coordinator = drive(service, job.id)
    best = service.best(job.id)
    assert best.trial.number == coordinator.best().number
    assert best.trial.feasible
    assert best.default is not None
    assert best.improvement == pytest.approx(best.trial.value - best.default.value)
    assert "trainer.total_steps=4" in best.overrides
    assert best.command.startswith("python -m trainer --config-name config data=digits model=tiny")


def test_what_people_see_of_a_job_adds_up(service, source, drive):
    job, _ = service.submit(source, "space.yaml")
    drive(service, job.id)
    view = service.job(job.id)
    assert view.state == "completed"
    assert sum(view.trials.values()) == 4
    trials = service.trials(job.id).items
    assert view.cost_s == sum(trial.cost_s for trial in trials)
    pruned = [trial for trial in trials if trial.state == "pruned"]
    assert all("kl/actor_ref was above 0.4" in trial.reason.text for trial in pruned)
    curves = service.curves(job.id, metrics=["eval/reward"])
    assert [len(curve.steps) for curve in curves] == [trial.last_step for trial in trials]
    assert service.events(job.id)[0].text == "submitted"


def test_trials_come_in_pages_and_by_state(service, source, drive):
    job, _ = service.submit(source, "space.yaml")
    drive(service, job.id)
    first = service.trials(job.id, limit=3)
    rest = service.trials(job.id, limit=3, cursor=first.next)
    assert [trial.number for trial in [*first.items, *rest.items]] == [0, 1, 2, 3]
    assert rest.next is None
    assert all(trial.state == "completed" for trial in service.trials(job.id, state="completed").items)
    with pytest.raises(UsageError, match="unknown state 'done'; allowed are"):
        service.trials(job.id, state="done")
    with pytest.raises(UsageError, match="none of ours"):
        service.trials(job.id, cursor="x")


def test_a_job_without_a_completed_trial_has_no_best(service, source):
    job, _ = service.submit(source, "space.yaml")
    with pytest.raises(NotFoundError, match="none completed yet"):
        service.best(job.id)


def test_cancelling_a_queued_job_ends_it_at_once_and_twice_is_a_conflict(service, source):
    job, _ = service.submit(source, "space.yaml")
    assert service.cancel(job.id).state == "cancelled"
    with pytest.raises(ConflictError, match="is cancelled already"):
        service.cancel(job.id)


def test_cancelling_a_running_job_leaves_the_wish_for_its_driver(service, source):
    job, _ = service.submit(source, "space.yaml")
    with service.store.begin() as work:
        lease = work.jobs.lease(job.id, "elsewhere/1/x", service.clock.now(), 30.0)
        work.jobs.set_state(job.id, JobState.RUNNING, service.clock.now(), lease=lease)
    assert service.cancel(job.id).state == "running"
    with service.store.read() as work:
        assert work.jobs.get(job.id).requested == "cancel"


def test_a_running_job_whose_lease_expired_is_queued_again(service, source):
    job, _ = service.submit(source, "space.yaml")
    with service.store.begin() as work:
        lease = work.jobs.lease(job.id, "elsewhere/1/x", service.clock.now(), 30.0)
        work.jobs.set_state(job.id, JobState.RUNNING, service.clock.now(), lease=lease)
    assert service.requeue_abandoned() == []
    with pytest.raises(ConflictError, match="has a driver that lives"):
        service.resume(job.id)
    service.clock.advance(31.0)
    assert service.requeue_abandoned() == [job.id]
    assert service.job(job.id).state == "queued"


@pytest.mark.parametrize("end", [JobState.FAILED, JobState.CANCELLED])
def test_a_failed_or_cancelled_job_can_be_resumed(service, source, end):
    job, _ = service.submit(source, "space.yaml")
    error = JobError(kind="driver", message="it died", hint="look") if end is JobState.FAILED else None
    with service.store.begin() as work:
        work.jobs.set_state(job.id, end, 1001.0, error=error)
    assert service.resume(job.id).state == "queued"
    assert service.job(job.id).error is None


def test_a_completed_job_cannot_be_resumed(service, source, drive):
    job, _ = service.submit(source, "space.yaml")
    drive(service, job.id)
    with pytest.raises(ConflictError, match="nothing left to do"):
        service.resume(job.id)


def test_logs_are_tailed_and_a_missing_one_is_said(service, source, drive):
    job, _ = service.submit(source, "space.yaml")
    with pytest.raises(NotFoundError, match=r"no log .*driver\.log yet"):
        service.logs(job.id)
    (service.settings.job_dir(job.id) / "driver.log").write_text("one\ntwo\nthree\n")
    assert service.logs(job.id, tail=2) == "two\nthree\n"
    drive(service, job.id)
    directory = service.settings.job_dir(job.id) / "trials" / "0001"
    directory.mkdir(parents=True)
    (directory / "attempt_9.log").write_text("old\n")
    (directory / "attempt_10.log").write_text("new\n")
    assert service.logs(job.id, trial=1) == "new\n"


def test_an_unknown_job_names_the_nearest(service, source):
    service.submit(source, "space.yaml")
    with pytest.raises(NotFoundError, match="there is no job 'smal-1'") as caught:
        service.job("smal-1")
    assert "small-1" in caught.value.hint


def test_readiness_says_what_is_wrong(service):
    assert dict(service.ready()) == {"database": "ok", "home": "ok", "disk": "ok"}
