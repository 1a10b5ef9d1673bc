"""Taking over a checkpoint of another trial."""

import os

import pytest

from autotune.execution.checkpoints import CheckpointGoneError, adopt, steps_of, take_over


@pytest.fixture
def earlier(tmp_path):
    place = tmp_path / "earlier" / "checkpoints" / "step_3"
    (place / "actor").mkdir(parents=True)
    (place / "actor" / "weights").write_text("w3")
    (place / "progress.json").write_text("{}")
    return tmp_path / "earlier"


def test_a_trial_without_checkpoints_begins_where_another_one_stood(earlier, tmp_path):
    assert adopt(earlier, tmp_path / "mine", 3)
    assert steps_of(tmp_path / "mine") == [3]
    assert (tmp_path / "mine/checkpoints/step_3/actor/weights").read_text() == "w3"


def test_what_the_other_trial_removes_stays_here(earlier, tmp_path):
    adopt(earlier, tmp_path / "mine", 3)
    (earlier / "checkpoints/step_3/actor/weights").unlink()
    assert (tmp_path / "mine/checkpoints/step_3/actor/weights").read_text() == "w3"


def test_a_trial_with_checkpoints_of_its_own_keeps_them(earlier, tmp_path):
    (tmp_path / "mine/checkpoints/step_5").mkdir(parents=True)
    assert not adopt(earlier, tmp_path / "mine", 3)
    assert steps_of(tmp_path / "mine") == [5]


def test_a_checkpoint_that_is_gone_is_no_beginning(earlier, tmp_path):
    assert not adopt(earlier, tmp_path / "mine", 4)
    assert steps_of(tmp_path / "mine") == []


def test_what_a_killed_attempt_left_half_done_is_made_anew(earlier, tmp_path):
    debris = tmp_path / "mine/checkpoints/.step_3.tmp"
    debris.mkdir(parents=True)
    (debris / "rubbish").touch()
    assert adopt(earlier, tmp_path / "mine", 3)
    assert not (tmp_path / "mine/checkpoints/step_3/rubbish").exists()


def test_files_are_copied_where_they_cannot_be_linked(earlier, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("another file system")

    monkeypatch.setattr(os, "link", refuse)
    assert adopt(earlier, tmp_path / "mine", 3)
    assert (tmp_path / "mine/checkpoints/step_3/actor/weights").stat().st_nlink == 1


def test_a_trial_that_takes_over_gives_up_its_own_checkpoints(earlier, tmp_path):
    (tmp_path / "mine/checkpoints/step_5").mkdir(parents=True)
    (tmp_path / "mine/checkpoints/best.json").write_text("{}")
    for _ in range(2):
        take_over(earlier, tmp_path / "mine", 3)
        assert [path.name for path in (tmp_path / "mine/checkpoints").iterdir()] == ["step_3"]
    assert steps_of(earlier) == [3]


def test_a_trial_keeps_its_own_checkpoints_when_the_other_one_is_gone(earlier, tmp_path):
    (tmp_path / "mine/checkpoints/step_5").mkdir(parents=True)
    with pytest.raises(CheckpointGoneError, match="earlier has no checkpoint of step 4"):
        take_over(earlier, tmp_path / "mine", 4)
    assert steps_of(tmp_path / "mine") == [5]
