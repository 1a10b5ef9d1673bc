from __future__ import annotations

from pathlib import Path

import pytest

from autotune.service.winner import last_checkpoint


def test_the_answer_of_a_job_with_finalists_names_their_means_and_says_what_they_are_worth(service, drive, source):
    view, _ = service.submit(source + "finalists: {top: 2, seeds: 3}\n", "small.yaml")
    coordinator = drive(service, view.id)
    fresh = [trial for trial in coordinator.trials.values() if trial.source.startswith("finalist-")]
    best = service.best(view.id)
    assert len(fresh) == 3 * len(best.finalists)
    assert best.trial.number == best.finalists[0].trial
    assert not best.trial.source.startswith("finalist-")
    assert best.finalists[0].mean == pytest.approx(sum(best.finalists[0].values) / 3)
    assert best.finding.startswith(f"Trial {best.trial.number} wins with a mean eval/reward of")
    assert service.job(view.id).best_trial == best.trial.number


def test_without_finalists_nothing_is_said_about_them(service, drive, source):
    view, _ = service.submit(source, "small.yaml")
    drive(service, view.id)
    best = service.best(view.id)
    assert (best.finalists, best.finding) == ([], "")


def test_the_checkpoint_of_a_trial_that_was_completed_at_its_peak_is_not_one_from_after_it(tmp_path: Path):
    for step in (5, 10, 15):
        (tmp_path / "checkpoints" / f"step_{step}").mkdir(parents=True)
    assert last_checkpoint(tmp_path, None) == str(tmp_path / "checkpoints" / "step_15")
    assert last_checkpoint(tmp_path, 12.0) == str(tmp_path / "checkpoints" / "step_10")
    assert last_checkpoint(tmp_path, 4.0) is None
