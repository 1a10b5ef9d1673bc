"""Files beside a study in Optuna: there once, and as they are now."""

from __future__ import annotations

import optuna
import pytest
from optuna.artifacts import get_all_artifact_meta

from autotune.store.optuna_artifacts import attach, names, open_files
from autotune.store.optuna_storage import open_storage


@pytest.fixture
def keep(url, tmp_path):
    """Attaches texts by their names; answers what is there after that: name -> text."""
    optuna.create_study(storage=open_storage(url), study_name="quick-1")
    folder = tmp_path / "kept"

    def act(**texts):
        files = [tmp_path / f"{name}.html" for name in texts]
        for path in files:
            path.write_text(texts[path.stem])
        attach(url, "quick-1", folder, files)
        study = optuna.load_study(study_name="quick-1", storage=open_storage(url))
        there = get_all_artifact_meta(study)
        assert len(list(folder.iterdir())) == len(there)
        return {meta.filename: open_files(folder).open_reader(meta.artifact_id).read().decode() for meta in there}

    act.folder = folder
    return act


def test_a_file_is_there_once_however_often_it_is_attached(keep):
    assert keep(report="one") == {"report.html": "one"}
    (path,) = keep.folder.iterdir()
    before = path.stat().st_mtime_ns
    assert keep(report="one") == {"report.html": "one"}
    assert path.stat().st_mtime_ns == before


def test_a_file_that_changed_is_written_again_under_its_old_address(keep):
    keep(report="one", best="x")
    addresses = set(keep.folder.iterdir())
    assert keep(report="two") == {"report.html": "two", "best.html": "x"}
    assert set(keep.folder.iterdir()) == addresses


def test_a_file_that_was_noted_and_never_written_is_written(keep):
    keep(report="one")
    for path in keep.folder.iterdir():
        path.unlink()
    assert keep(report="one") == {"report.html": "one"}


def test_a_study_that_was_never_opened_gets_nothing(url, tmp_path):
    (tmp_path / "a.txt").write_text("x")
    attach(url, "nobody-1", tmp_path / "kept", [tmp_path / "a.txt"])
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_file_that_was_deleted_in_the_dashboard_is_no_file():
    assert names({"artifacts:1": "null", "artifacts:2": '{"filename": "a", "artifact_id": "2"}', "x": 1}) == {"a": "2"}
