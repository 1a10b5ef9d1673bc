"""The best checkpoint stays, is named, survives a resume and can be exported; nothing else escapes pruning."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from trainer.config import ConfigError, build, compose
from trainer.loop.best import Best, better, read_best
from trainer.models.export import export, main

# The evaluation after step N answers the N-th value: a run that goes too far.
PEAKED = """
import os
VALUES = [0.1, 0.3, 0.9, float(os.environ.get("FOURTH", "0.5")), 0.4, 0.2, 0.1]
def score(response):
    return 0.0
def peak(response):
    place = int(os.environ["CALLS"])
    os.environ["CALLS"] = str(place + 1)
    return VALUES[place // 8]
"""
SETTINGS: dict[str, object] = {
    "reward.name": None,
    "reward.function": "peaked:score",
    "reward.eval_function": "peaked:peak",
    "trainer.total_steps": 6,
    "trainer.max_checkpoints": 1,
    "trainer.save_best": "eval/reward",
}


@pytest.fixture
def peaked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "peaked.py").write_text(PEAKED)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("CALLS", "0")


def kept(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "checkpoints").iterdir())


def test_a_run_that_goes_too_far_keeps_its_peak(
    tmp_path: Path, run_here: Callable, lines_of: Callable, peaked: None
) -> None:
    assert run_here(tmp_path / "run", SETTINGS).code == 0
    assert kept(tmp_path / "run") == ["best.json", "step_2", "step_6"]
    assert read_best(tmp_path / "run") == Best(metric="eval/reward", value=0.9, step=2)
    announced = [line for line in lines_of(tmp_path / "run") if "checkpoint" in line]
    assert [(line["step"], line.get("best_by")) for line in announced] == [
        (1, "eval/reward"),
        (2, "eval/reward"),
        (6, None),
    ]
    out = tmp_path / "out"
    assert main([str(tmp_path / "run"), "--out", str(out), "--best"]) == 0
    assert json.loads((out / "training.json").read_text())["step"] == 2


@pytest.mark.parametrize(("fourth", "steps"), [("0.5", ["step_2", "step_5"]), ("0.95", ["step_3", "step_5"])])
def test_the_best_survives_a_resume_and_gives_way_to_a_better_one_alone(
    tmp_path: Path, run_here: Callable, peaked: None, monkeypatch: pytest.MonkeyPatch, fourth: str, steps: list[str]
) -> None:
    monkeypatch.setenv("FOURTH", fourth)
    import sys

    sys.modules.pop("peaked", None)
    settings = {**SETTINGS, "trainer.total_steps": 5}
    # The last step is evaluated as every other one is, so the values go on where they were.
    assert run_here(tmp_path / "run", {**settings, "trainer.until_step": 2}).code == 0
    assert kept(tmp_path / "run") == ["best.json", "step_2"]
    assert run_here(tmp_path / "run", settings).code == 0
    assert kept(tmp_path / "run") == ["best.json", *steps]


def test_smaller_is_better_where_that_is_said_and_nan_never_is() -> None:
    settings = build(compose(overrides={"trainer.save_best": "kl/actor_ref", "trainer.save_best_mode": "min"})).trainer
    first = better(None, 1, {"kl/actor_ref": 0.2}, settings)
    assert first == Best(metric="kl/actor_ref", value=0.2, step=1)
    assert better(first, 2, {"kl/actor_ref": 0.2}, settings) is None, "an equal one changes nothing"
    assert better(first, 2, {"kl/actor_ref": float("nan")}, settings) is None
    assert better(None, 2, {"kl/actor_ref": float("nan")}, settings) is None
    assert better(first, 2, {"eval/reward": 0.0}, settings) is None
    assert better(first, 2, {"kl/actor_ref": 0.1}, settings) == Best(metric="kl/actor_ref", value=0.1, step=2)


def test_a_metric_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"save_best: got 'eval/rewrd', which is no metric .*'eval/reward'"):
        build(compose(overrides={"trainer.save_best": "eval/rewrd"}))
    with pytest.raises(ConfigError, match="differs from rank to rank"):
        build(compose(overrides={"trainer.save_best": "perf/step_s"}))
    with pytest.raises(ConfigError, match=r"save_best_mode: got 'min', but trainer.save_best = null"):
        build(compose(overrides={"trainer.save_best_mode": "min"}))


def test_without_a_best_the_export_says_what_to_do(tmp_path: Path, run_here: Callable, capsys) -> None:
    assert run_here(tmp_path / "run", {"trainer.total_steps": 1}).code == 0
    assert main([str(tmp_path / "run"), "--out", str(tmp_path / "out"), "--best"]) == 1
    assert "names no best checkpoint (train with trainer.save_best" in capsys.readouterr().err
    assert export(tmp_path / "run", tmp_path / "out") == 1
