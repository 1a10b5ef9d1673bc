"""Another search for a job that is at rest."""

from __future__ import annotations

import optuna
import pytest

from autotune.errors import ConflictError, InvalidSpaceError, UsageError
from autotune.service.observers import observers_for
from autotune.service.spaces import resolve_document
from autotune.spec.edits import edited
from autotune.spec.loader import load_space
from autotune.states import JobState
from autotune.store import Lease, SqlBook
from tests.service.test_stages import SOURCE, Simulated


@pytest.fixture
def resting(service, drive, source):
    """A job that ran its four trials and failed after that, for whatever reason."""
    view, _ = service.submit(source, "small.yaml")
    drive(service, view.id, until=JobState.FAILED)
    return view.id


def params(service, job):
    return [dict(trial.params) for trial in service.trials(job).items]


def test_a_wider_range_keeps_every_trial_and_is_what_the_job_goes_on_with(service, resting):
    service.edit_space(resting, {"lr": {"float": [1e-6, 1e-2], "log": True}})
    space = resolve_document(service.document(resting), "x").space
    assert (space.search["trainer.optim.lr"].domain.low, space.search["trainer.optim.lr"].domain.high) == (1e-6, 1e-2)
    said = service.events(resting)[-1].text
    assert said.startswith("space version 2: trainer.optim.lr: 1e-05 to 0.001, log -> 1e-06 to 0.01, log; ")
    assert said.endswith("4 of 4 ended trials still fit")


def test_a_parameter_that_is_searched_no_longer_leaves_the_trials_that_had_its_default(service, resting):
    before = service.trials(resting).items
    service.edit_space(resting, {"ppo_epochs": None})
    default = service.document(resting)
    assert "trainer.ppo_epochs" not in default["search"]
    for old, new in zip(before, service.trials(resting).items, strict=True):
        kept = old.params["trainer.ppo_epochs"] != 1
        assert ("trainer.ppo_epochs" in new.params) == kept


def test_a_new_parameter_is_filled_in_with_what_the_trials_ran_with(service, resting):
    service.edit_space(resting, {"clip_ratio": {"float": [0.05, 0.3]}})
    assert all(one["algorithm.clip_ratio"] == 0.1 for one in params(service, resting))


def test_the_job_goes_on_in_the_new_space_and_learns_from_what_fits(service, resting):
    service.edit_space(resting, {"ppo_epochs": {"choice": [2, 3]}})
    document = dict(service.document(resting))
    with service.store.begin() as work:
        work.jobs.edit(
            resting, "more trials", 1.0, document={**document, "budget": {**document["budget"], "trials": 7}}
        )
        work.jobs.set_state(resting, JobState.QUEUED, service.clock.now())
        lease = work.jobs.lease(resting, "tester/0/y", service.clock.now(), 1e6)
    Simulated(service, lease).run()
    later = params(service, resting)[4:]
    assert len(later) == 3
    assert {one["trainer.ppo_epochs"] for one in later} <= {2, 3}


def test_optuna_gets_a_study_for_each_version_so_that_choices_may_change(service, resting):
    for choice in ([2, 3], [2, 3, 4]):
        service.edit_space(resting, {"ppo_epochs": {"choice": choice}})
        with service.store.begin() as work:
            (study,) = work.jobs.studies(resting)
            job = work.jobs.get(resting)
        mirror = observers_for(service, job, resolve_document(job.document, "x"), study)["Optuna's study"]()
        lease = Lease(job=resting, owner="", token=0, expires=0.0)
        mirror.reconcile(SqlBook(service.store, study.id, lease).load())
        mirror.close(None, JobState.PAUSED)
    storage = optuna.storages.RDBStorage(service.settings.study_database)
    names = {one.study_name: one.n_trials for one in optuna.get_all_study_summaries(storage)}
    assert names == {f"{resting}@2": 4, f"{resting}@3": 4}


def test_a_job_that_is_at_work_or_waits_is_left_alone(service, source):
    view, _ = service.submit(source, "small.yaml")
    with pytest.raises(ConflictError, match="is queued") as caught:
        service.edit_space(view.id, {"lr": None})
    assert "autotune pause" in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lr": {"float": [1, 0]}}, "upside down"),
        ({"lrr": {"float": [0, 1]}}, "unknown parameter 'lrr'"),
        ({"clip_ratio": None}, "is not searched, so it cannot be taken away"),
        ({"lr": None, "ppo_epochs": None}, "nothing would be searched"),
        ({"lr": 3}, "must be a mapping"),
        ({"lr": {"float": [1e-5, 1e-3], "prior": 1}}, "does not lie in the domain"),
    ],
)
def test_a_space_that_cannot_be_used_is_refused_and_nothing_changes(service, resting, changes, message):
    before = service.document(resting)
    with pytest.raises(InvalidSpaceError, match=message):
        service.edit_space(resting, changes)
    assert service.document(resting) == before


@pytest.mark.parametrize("changes", [{}, {"ppo_epochs": {"int": [1, 4]}}])
def test_a_change_that_changes_nothing_is_said_so(service, resting, changes):
    with pytest.raises(UsageError, match="nothing would change"):
        service.edit_space(resting, changes)


def test_the_stage_that_failed_is_searched_wider_and_the_stages_before_stay(service):
    view, _ = service.submit(SOURCE.replace("1.3 * default", "5 * default"), "space.yaml")

    def drive():
        with service.store.begin() as work:
            lease = work.jobs.lease(view.id, "tester/0/x", service.clock.now(), 1e6)
        Simulated(service, lease).run()
        return service.job(view.id)

    assert drive().stage == "fast"
    with pytest.raises(ConflictError, match="is over"):
        service.edit_space(view.id, {"micro_batch_size_per_gpu": {"choice": [4]}}, stage="alive")
    service.edit_space(view.id, {"ppo_epochs": {"int": [1, 8]}})
    with service.store.read() as work:
        assert [study.version for study in work.jobs.studies(view.id)] == [1, 2, 1]


def test_what_was_tried_keeps_its_place_and_what_was_not_is_moved_into_the_ranges():
    document = {
        "search": {"trainer.optim.lr": {"float": [1e-5, 1e-3]}, "trainer.ppo_epochs": {"int": [1, 4]}},
        "start_from": ["default", {"trainer.optim.lr": 1e-3, "trainer.ppo_epochs": 4}, {"trainer.ppo_epochs": 4}],
    }
    new = edited(document, {"lr": {"float": [1e-5, 1e-4]}, "ppo_epochs": None}, tried=1)
    assert new["start_from"] == [{"tried": "default"}, {"trainer.optim.lr": 1e-4}, "default"]
    assert edited(new, {"lr": {"float": [1e-5, 1e-2]}}, tried=1)["start_from"][0] == {"tried": "default"}


def test_a_start_that_was_tried_keeps_its_label_and_need_not_lie_in_the_space():
    text = (
        "name: x\nsearch: {lr: {float: [1e-5, 1e-4]}}\nobjective: {metric: eval/reward}\nbudget: {trials: 3}\n"
        "start_from: [{tried: default}, {tried: {lr: 1}}, {lr: 2e-5}]\n"
    )
    assert [(start.label, start.tried) for start in load_space(text).start_from] == [
        ("default", True),
        ("start-1", True),
        ("start-2", False),
    ]
