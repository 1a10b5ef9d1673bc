"""Jobs that start from what earlier searches have found."""

from __future__ import annotations

import optuna
import pytest

from autotune.access import Caller, Role
from autotune.errors import InvalidSpaceError, NotAllowedError
from autotune.spec.loader import load_space

NEXT = """
name: next
trainer: {overrides: {data: digits, model: tiny}}
search:
  lr: {float: [1e-5, 5e-4], log: true}
  ppo_epochs: {int: [1, 2]}
objective: {metric: eval/reward}
budget: {trials: 6, steps: 4}
"""


@pytest.fixture
def earlier(service, drive, source):
    view, _ = service.submit(source, "small.yaml")
    return drive(service, view.id)


@pytest.fixture
def study(tmp_path):
    """A study of Optuna's with the short names of parameters."""
    path = tmp_path / "old.db"
    kept = optuna.create_study(storage=f"sqlite:///{path}", study_name="old", direction="maximize")
    for lr, value in [(1e-4, 1.0), (2e-4, 3.0), (9e-1, 2.0)]:
        kept.add_trial(
            optuna.trial.create_trial(
                params={"lr": lr}, distributions={"lr": optuna.distributions.FloatDistribution(1e-6, 1.0)}, value=value
            )
        )
    return path


def starts(service, text):
    view, _ = service.submit(text, "next.yaml")
    return service.document(view.id)["start_from"]


def refused(service, text):
    with pytest.raises(InvalidSpaceError) as caught:
        service.plan(text, "next.yaml")
    return caught.value.problems


def test_the_best_trials_of_an_earlier_job_are_tried_first_moved_into_the_ranges(service, earlier):
    found = starts(service, NEXT + "start_from: [default, {job: small-1, top: 2}]\n")
    done = [trial for trial in earlier.trials.values() if trial.value is not None and trial.feasible]
    best = sorted(done, key=lambda trial: -trial.value)[:2]
    assert found[0] == "default"
    for written, trial in zip(found[1:], best, strict=False):
        assert written["trainer.optim.lr"] == min(trial.params["trainer.optim.lr"], 5e-4)
        assert written["trainer.ppo_epochs"] == min(trial.params["trainer.ppo_epochs"], 2)


def test_what_the_earlier_job_had_fixed_is_taken_over_where_it_is_searched_now(service, earlier):
    text = NEXT.replace("ppo_epochs: {int: [1, 2]}", "clip_ratio: {float: [0.05, 0.3]}")
    found = starts(service, text + "start_from: [{job: small-1}]\n")
    assert found[0]["algorithm.clip_ratio"] == earlier.trials[0].config["algorithm.clip_ratio"]


def test_configurations_that_come_out_the_same_are_tried_once(service, earlier):
    twice = starts(service, NEXT + "start_from: [{job: small-1, top: 1}, {job: small-1, top: 1}]\n")
    assert len(twice) == 1


def test_the_job_needs_the_earlier_one_never_again(service, earlier):
    view, _ = service.submit(NEXT + "start_from: [{job: small-1, top: 3}]\n", "next.yaml")
    assert "small-1" not in str(service.document(view.id))


def test_the_same_file_with_the_same_key_is_the_same_job_whatever_was_found_since(service, earlier):
    text = NEXT + "start_from: [{job: small-1, top: 3}]\n"
    first, _ = service.submit(text, "next.yaml", "key")
    again, created = service.submit(text, "next.yaml", "key")
    assert (again.id, created) == (first.id, False)


def test_the_best_of_an_optuna_study_are_tried_first_under_the_full_names(service, study):
    found = starts(service, NEXT + f"start_from: [{{optuna: 'sqlite:///{study}', study: old, top: 2}}]\n")
    assert [one["trainer.optim.lr"] for one in found] == [2e-4, 5e-4]


def test_reading_a_study_changes_nothing_in_it(service, study):
    before = study.read_bytes()
    service.plan(NEXT + f"start_from: [{{optuna: 'sqlite:///{study}'}}]\n", "next.yaml")
    assert study.read_bytes() == before


@pytest.mark.parametrize(
    ("item", "message", "hint"),
    [
        ("{job: smal-1}", "there is no job 'smal-1'", "small-1"),
        ("{job: empty-1}", "has no trial that completed", "autotune show empty-1"),
        ("{optuna: 'sqlite:////nowhere/old.db'}", "there is no file /nowhere/old.db", "four slashes"),
        ("{optuna: 'postgresql://db/x'}", "allowed is an SQLite file", "copy_study"),
        ("{optuna: 'sqlite:///STUDY', study: odl}", "no study 'odl'; it has: old", "'old'"),
        ("{optuna: 'sqlite:///JUNK'}", "is no database of Optuna's", "Give the file"),
    ],
)
def test_an_earlier_search_that_cannot_be_used_is_told_at_submission_with_its_place(
    service, earlier, study, tmp_path, source, item, message, hint
):
    service.submit(source.replace("name: small", "name: empty"), "empty.yaml")
    (tmp_path / "junk").write_text("no database")
    item = item.replace("STUDY", str(study)).replace("JUNK", str(tmp_path / "junk"))
    (problem,) = refused(service, NEXT + f"start_from:\n  - default\n  - {item}\n")
    assert (problem.path, problem.line, problem.column) == ("start_from[1]", 11, 5)
    assert message in problem.message
    assert hint in problem.hint


def test_an_earlier_job_over_another_space_is_refused(service, earlier):
    text = NEXT.replace("lr: {float: [1e-5, 5e-4], log: true}", "clip_ratio: {float: [0.05, 0.3]}")
    text = text.replace("ppo_epochs: {int: [1, 2]}", "lam: {float: [0.9, 1.0]}")
    (problem,) = refused(service, text + "start_from: [{job: small-1}]\n")
    assert "searched another space" in problem.message


def test_all_warm_starts_that_fail_are_told_at_once(service):
    assert len(refused(service, NEXT + "start_from: [{job: a-1}, {job: b-1}]\n")) == 2


def test_only_an_administrator_lets_the_service_read_a_database(service, study):
    asked = service.as_caller(Caller(name="ann", role=Role.OPERATOR))
    with pytest.raises(NotAllowedError, match="reading a database"):
        asked.submit(NEXT + f"start_from: [{{optuna: 'sqlite:///{study}'}}]\n", "next.yaml")


@pytest.mark.parametrize(
    ("item", "path", "message"),
    [
        ("{job: a-1, tpo: 2}", "start_from[0].tpo", "unknown key 'tpo'"),
        ("{job: a-1, top: 0}", "start_from[0].top", "at least 1"),
        ("{job: 3}", "start_from[0].job", "must be a text"),
        ("{optuna: null}", "start_from[0].optuna", "names nothing"),
    ],
)
def test_a_warm_start_that_is_written_wrongly_says_where(item, path, message):
    with pytest.raises(InvalidSpaceError) as caught:
        load_space(NEXT + f"start_from: [{item}]\n")
    (problem,) = caught.value.problems
    assert problem.path == path
    assert message in problem.message
