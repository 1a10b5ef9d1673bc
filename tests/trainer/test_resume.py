"""N + M steps are N steps, a resume, and M steps, to the bit."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

Lines = Callable[[Path], list[dict[str, object]]]
SETTINGS: dict[str, object] = {
    "trainer.total_steps": 7,
    "trainer.optim.scheduler": "cosine",
    "trainer.ppo_epochs": 2,
    "data.train_size": 16,  # an epoch is two steps: the resume falls inside one and the run crosses several
    "algorithm.kl_ctrl.type": "adaptive",
    "algorithm.kl_ctrl.horizon": 50,
    "reward.normalize": "standardize",
}


def curves(lines: list[dict[str, object]]) -> dict[int, dict[str, object]]:
    """Metrics by step, without what a clock measures."""
    return {
        line["step"]: {name: value for name, value in line["metrics"].items() if not name.startswith("perf/")}
        for line in lines
        if "metrics" in line
    }


@pytest.mark.parametrize("until", [3, 4], ids=["within an epoch", "at the end of an epoch"])
def test_a_resumed_run_is_equal_to_the_bit(
    tmp_path: Path, run_here: Callable, lines_of: Lines, monkeypatch: pytest.MonkeyPatch, until: int
) -> None:
    (tmp_path / "noisy_reward.py").write_text(
        "import random\n\n"
        "def score(prompt, response, ground_truth):\n    return len(response) / 10 + random.random() / 10\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    settings = {**SETTINGS, "reward.name": None, "reward.function": "noisy_reward:score"}
    import random

    random.seed(0)
    assert run_here(tmp_path / "whole", settings).code == 0
    random.seed(0)
    first = run_here(tmp_path / "parts", {**settings, "trainer.until_step": until})
    assert (first.code, first.result["status"], first.result["last_step"]) == (0, "finished", until)
    random.seed(99)  # the checkpoint brings the random state back
    second = run_here(tmp_path / "parts", settings)
    assert second.code == 0
    assert f"resuming after step {until}" in second.stderr
    whole, parts = curves(lines_of(tmp_path / "whole")), curves(lines_of(tmp_path / "parts"))
    assert list(parts) == list(range(8))
    assert parts == whole


def test_the_newest_complete_checkpoint_is_taken_and_debris_is_not(
    tmp_path: Path, run_here: Callable, lines_of: Lines
) -> None:
    assert run_here(tmp_path, {"trainer.save_freq": 1, "trainer.max_checkpoints": 3}).code == 0
    root = tmp_path / "checkpoints"
    assert sorted(path.name for path in root.iterdir()) == ["step_2", "step_3", "step_4"]
    (root / "step_9").mkdir()  # without its last file
    (root / ".step_8.tmp").mkdir()
    with (tmp_path / "metrics.jsonl").open("a") as handle:
        handle.write('{"step": 5, "ti')  # cut short by a kill
    ended = run_here(tmp_path, {"trainer.total_steps": 6, "trainer.max_checkpoints": 3})
    assert ended.code == 0
    assert "resuming after step 4" in ended.stderr
    assert not list(root.glob(".step_*"))
    text = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert text.count('{"step": 5, "ti') == 1
    assert '"step": 6' in text[-1]


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path, run_here: Callable) -> None:
    assert run_here(tmp_path, {"trainer.total_steps": 1}).code == 0
    ended = run_here(tmp_path, {"model.hidden_size": 32})
    assert ended.code == 1
    assert ended.result["error"]["kind"] == "config"
    assert "model.hidden_size: got 32, but the checkpoint of step 1 was made with 16" in ended.stderr


def test_a_finished_run_started_again_is_finished(tmp_path: Path, run_here: Callable, lines_of: Lines) -> None:
    assert run_here(tmp_path, {}).code == 0
    before = curves(lines_of(tmp_path))
    again = run_here(tmp_path, {})
    assert (again.code, again.result["status"], again.result["last_step"]) == (0, "finished", 4)
    assert curves(lines_of(tmp_path)) == before


def test_a_run_that_goes_on_with_another_learning_rate_uses_it(
    tmp_path: Path, run_here: Callable, lines_of: Lines
) -> None:
    assert run_here(tmp_path, {"trainer.total_steps": 4, "trainer.until_step": 2}).code == 0
    changed = {"trainer.total_steps": 4, "trainer.optim.lr": 1e-7}
    assert run_here(tmp_path, changed).code == 0
    steps = curves(lines_of(tmp_path))
    assert steps[2]["actor/lr"] > 1e-6
    assert [steps[step]["actor/lr"] for step in (3, 4)] == pytest.approx([1e-7, 1e-7])


def test_a_checkpoint_holds_the_running_scale_of_the_scores(
    tmp_path: Path, run_here: Callable, lines_of: Lines
) -> None:
    settings = {"trainer.total_steps": 3, "reward.normalize": "scale"}
    assert run_here(tmp_path, settings).code == 0
    saved = json.loads((tmp_path / "checkpoints" / "step_3" / "progress.json").read_text())["reward_normalizer"]
    last = curves(lines_of(tmp_path))[3]
    assert saved["mean"] == last["reward/running_mean"]
    assert math.sqrt(saved["squares"] / saved["count"]) == last["reward/running_std"]
