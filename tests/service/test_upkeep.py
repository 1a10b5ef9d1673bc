"""What does not fit together is found, explained and put right; what fits is left alone."""

import sqlite3

import pytest

from autotune.errors import ConflictError, UsageError
from autotune.search.ranking import best_of
from autotune.search.types import Attempt, Trial
from autotune.service.observers import observers_for
from autotune.service.retention import prune
from autotune.service.spaces import resolve_document
from autotune.service.upkeep import check
from autotune.states import JobState, TrialState
from autotune.store import SqlBook
from autotune.store.backup import back_up
from autotune.store.values import Lease


@pytest.fixture
def finished(service, source, drive):
    """A job that has ended well, with both mirrors written."""
    job = service.submit(source, "space.yaml")[0].id
    drive(service, job)
    with service.store.read() as work:
        record, study = work.jobs.get(job), work.jobs.studies(job)[0]
    resolved = resolve_document(record.document, record.file)
    history = SqlBook(service.store, study.id, Lease(job=job, owner="", token=-1, expires=0.0)).load()
    best = best_of(history.trials, resolved.space.objective)
    for build in observers_for(service, record, resolved, study).values():
        observer = build()
        observer.reconcile(history)
        observer.close(best, JobState.COMPLETED)
    return job


def kinds(service, **options):
    return [(one.kind, one.repaired) for one in check(service, **options)]


def test_what_fits_together_gives_no_finding(service, finished):
    assert kinds(service) == []


def test_an_optuna_study_that_is_behind_is_found_and_written_again(service, finished):
    with sqlite3.connect(service.settings.root / "autotune.db") as database:
        database.execute("UPDATE trials SET state = 'RUNNING' WHERE number = 1")
    database.close()
    (found,) = check(service, mlflow=False)
    assert found.text.startswith(
        f"trial 1 is {service.trial(finished, 1).state}, in Optuna's study 'small-1' it is running"
    )
    assert kinds(service, mlflow=False, repair=True) == [("optuna", True)]
    assert kinds(service, mlflow=False) == []


def test_a_missing_study_and_missing_runs_are_found_and_written_again(service, source, drive):
    job = service.submit(source, "space.yaml")[0].id
    drive(service, job)
    found = list(check(service))
    assert found[0].text == "Optuna has no study 'small-1'"
    assert [one.text for one in found[1:]] == [f"MLflow has no run of trial {number}" for number in range(4)]
    assert all(repaired for _, repaired in kinds(service, repair=True))
    assert kinds(service) == []


def running(service, job, number=0):
    """Leaves a trial running, as a driver that was killed does."""
    with service.store.begin() as work:
        lease = work.jobs.lease(job, "elsewhere/1/x", service.clock.now(), 30.0)
        work.jobs.set_state(job, JobState.RUNNING, service.clock.now(), lease=lease)
        study = work.jobs.studies(job)[0]
    attempt = Attempt(trial=number, number=1, token="t")
    trial = Trial(number=number, state=TrialState.RUNNING, source="default", params={}, config={}, attempt=attempt)
    SqlBook(service.store, study.id, lease).save(trial)
    return lease


def test_a_job_whose_driver_works_is_left_alone(service, source):
    job = service.submit(source, "space.yaml")[0].id
    running(service, job)
    assert kinds(service, mlflow=False) == []


def test_a_job_and_its_trial_that_a_dead_driver_left_are_queued_again(service, source):
    job = service.submit(source, "space.yaml")[0].id
    running(service, job)
    service.clock.advance(100.0)
    assert ("job", False) in kinds(service, mlflow=False)
    assert service.job(job).state == "running"
    assert {("job", True), ("trial", True)} <= set(kinds(service, mlflow=False, repair=True))
    assert service.job(job).state == "queued"
    assert service.trial(job, 0).state == "queued"
    assert kinds(service, mlflow=False) == []


def test_a_trial_that_still_runs_in_a_job_that_has_ended_is_cancelled(service, source):
    job = service.submit(source, "space.yaml")[0].id
    lease = running(service, job)
    with service.store.begin() as work:
        work.jobs.set_state(job, JobState.FAILED, service.clock.now())
        work.jobs.release(lease)
    assert ("trial", True) in kinds(service, mlflow=False, repair=True)
    trial = service.trial(job, 0)
    assert (trial.state, trial.ended_at) == ("cancelled", service.clock.now())
    assert "without anybody who ran it" in service.events(job)[-1].text


def checkpoints(service, job, *trials):
    for number in trials:
        folder = service.settings.job_dir(job) / "trials" / f"{number:04d}" / "checkpoints" / "step_4"
        folder.mkdir(parents=True)
        (folder / "weights").write_bytes(b"x" * 1000)


def test_old_checkpoints_go_and_the_best_trials_stay(service, source, drive):
    job = service.submit(source, "space.yaml")[0].id
    drive(service, job)
    best = service.job(job).best_trial
    checkpoints(service, job, 0, 1, 2, 3)
    service.clock.advance(100.0)
    assert list(prune(service, 1e6, "checkpoints", really=True)) == []
    (counted,) = prune(service, 50.0, "checkpoints", really=False)
    assert (counted.files, counted.size) == (3, 3000)
    assert list(prune(service, 50.0, "checkpoints", really=True)) == [counted]
    left = sorted(path.parts[-4] for path in service.settings.job_dir(job).glob("trials/*/checkpoints/step_4/weights"))
    assert left == [f"{best:04d}"]
    assert list(prune(service, 50.0, "checkpoints", really=True)) == []
    assert service.events(job)[-1].kind == "job.prune"


def test_old_curves_go_and_what_was_found_stays(service, source, drive):
    job = service.submit(source, "space.yaml")[0].id
    drive(service, job)
    before = service.job(job), service.trials(job).items
    service.clock.advance(100.0)
    (counted,) = prune(service, 50.0, "curves", really=False)
    (pruned,) = prune(service, 50.0, "curves", really=True)
    assert pruned.points == counted.points > 0
    assert [curve.trial for curve in service.curves(job)] == [service.job(job).best_trial]
    assert (service.job(job), service.trials(job).items) == before
    assert service.best(job).trial.number == before[0].best_trial


def test_a_job_that_has_not_ended_keeps_everything(service, source):
    job = service.submit(source, "space.yaml")[0].id
    checkpoints(service, job, 0)
    service.clock.advance(1e9)
    assert list(prune(service, 1.0, "checkpoints", really=True)) == []
    with pytest.raises(UsageError, match="allowed are checkpoints, curves"):
        list(prune(service, 1.0, "everything", really=True))


def test_a_backup_is_a_whole_database_that_never_replaces_a_file(service, finished, tmp_path):
    target = tmp_path / "copy.db"
    assert back_up(service.store, target) == target.stat().st_size > 0
    with sqlite3.connect(target) as copy:
        assert copy.execute("SELECT count(*) FROM autotune_trials").fetchone() == (4,)
    copy.close()
    with pytest.raises(ConflictError, match="exists already"):
        back_up(service.store, target)
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []
    assert target.stat().st_mode & 0o077 == 0


def test_a_trial_changed_by_nobody_is_equal_after_a_check(service, finished):
    before = service.trials(finished).items
    list(check(service, repair=True))
    assert service.trials(finished).items == before
