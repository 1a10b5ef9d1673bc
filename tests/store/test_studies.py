"""The studies of a job's stages, and the step from a database of before there were any."""

import pytest
from alembic import command
from sqlalchemy import text

from autotune.errors import LeaseLostError
from autotune.search.types import Event
from autotune.states import JobState
from autotune.store import NewJob, SqlBook, schema
from autotune.store.values import Lease

STAGES = ("alive", "fast")


def test_a_job_without_stages_has_one_study_of_its_own_name(store):
    with store.begin() as work:
        job = work.jobs.add(NewJob(name="plain", document={}), 1.0)
        (study,) = work.jobs.studies(job.id)
    assert (study.name, study.title, study.stage, study.verdict) == ("plain-1", "", 0, None)


def test_each_stage_has_a_study_from_the_beginning(any_store, make_desk):
    desk = make_desk(any_store, stages=STAGES)
    with any_store.read() as work:
        studies = work.jobs.studies(desk.job.id)
    assert [(s.stage, s.title, s.name) for s in studies] == [(0, "alive", "quick-1/alive"), (1, "fast", "quick-1/fast")]


def test_a_stage_keeps_its_times_and_its_verdict_and_says_so_in_the_record(any_store, make_desk):
    desk = make_desk(any_store, stages=STAGES)
    verdict = {"passed": True, "winner": 3, "checks": []}
    with any_store.begin() as work:
        study = work.jobs.begin_study(work.jobs.studies(desk.job.id)[1], 10.0, desk.lease)
        work.jobs.end_study(study, 20.0, verdict, "stage fast passed with trial 3", desk.lease)
    with any_store.read() as work:
        study = work.jobs.studies(desk.job.id)[1]
        said = [record for record in work.trials.events(desk.job.id) if record.event.kind.startswith("stage.")]
    assert (study.started_at, study.ended_at, study.verdict) == (10.0, 20.0, verdict)
    assert [(r.stage, r.event.kind) for r in said] == [(1, "stage.begin"), (1, "stage.end")]
    assert said[1].event.data == {"stage": "fast", **verdict}


def test_a_stage_that_goes_on_keeps_its_first_start_and_loses_its_verdict(store, make_desk):
    desk = make_desk(store, stages=STAGES)
    with store.begin() as work:
        study = work.jobs.begin_study(work.jobs.studies(desk.job.id)[0], 10.0, desk.lease)
        work.jobs.end_study(study, 20.0, {"passed": False}, "failed", desk.lease)
        again = work.jobs.begin_study(work.jobs.studies(desk.job.id)[0], 30.0, desk.lease)
    assert (again.started_at, again.ended_at, again.verdict) == (10.0, None, None)


def test_a_driver_without_its_lease_cannot_end_a_stage(store, make_desk):
    desk = make_desk(store, stages=STAGES)
    stale = Lease(job=desk.job.id, owner="somebody", token=0, expires=0.0)
    with store.begin() as work, pytest.raises(LeaseLostError):
        work.jobs.end_study(work.jobs.studies(desk.job.id)[0], 20.0, {}, "", stale)


def test_an_event_of_a_trial_carries_its_stage(store, make_desk, make_trial):
    desk = make_desk(store, stages=STAGES)
    with store.read() as work:
        second = work.jobs.studies(desk.job.id)[1]
    book = SqlBook(store, second.id, desk.lease, stage=1)
    book.save(make_trial(), (), [Event(at=1.0, kind="trial.state", text="x", trial=0)])
    with store.read() as work:
        (record,) = [r for r in work.trials.events(desk.job.id) if r.event.trial is not None]
    assert record.stage == 1


def test_the_step_to_stages_and_back_keeps_the_job_and_its_first_study(any_store, make_desk, make_trial):
    desk = make_desk(any_store, stages=STAGES)
    desk.book.save(make_trial(), (), [Event(at=4.0, kind="trial.state", text="x", trial=0)])
    with any_store.begin() as work:
        work.jobs.set_state(desk.job.id, JobState.COMPLETED, 9.0, lease=desk.lease)
    with any_store.engine.connect().execution_options(write=True) as connection, connection.begin():
        command.downgrade(schema.alembic_config(connection), "0001")
        left = connection.execute(text("SELECT name FROM autotune_studies")).scalars().all()
    assert left == ["quick-1/alive"]
    any_store.migrate()
    with any_store.read() as work:
        (study,) = work.jobs.studies(desk.job.id)
        assert (study.title, study.started_at, study.ended_at) == ("", 3.0, 9.0)
        assert [record.trial.number for record in work.trials.list(desk.job.id)] == [0]
