"""Learning from preferences in processes: two ranks train like one, and a stop leaves a checkpoint to go on from."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Quick = Callable[..., dict[str, object]]
Lines = Callable[[Path], list[dict[str, object]]]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
DPO: dict[str, object] = {"algorithm": "dpo", "data": "digits_preferences"}
BY_TOKENS = {
    "algorithm": "kto",
    "data": "digits_preferences",
    "trainer.use_dynamic_bsz": True,
    "trainer.ppo_max_token_len_per_gpu": 20,
}


def command(launcher: list[str]) -> list[str]:
    return [sys.executable, *launcher, "-m", "trainer", "--trial"]


def trial(directory: Path, launcher: list[str], config: dict[str, object]) -> subprocess.CompletedProcess[str]:
    directory.mkdir(exist_ok=True)
    (directory / "config.yaml").write_text(json.dumps(config))
    return subprocess.run(
        command(launcher),
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.mark.slow
@pytest.mark.parametrize("choice", [DPO, BY_TOKENS], ids=["dpo", "kto on pairs by tokens"])
def test_two_ranks_give_the_curves_of_one(
    tmp_path: Path, quick: Quick, lines_of: Lines, choice: dict[str, object]
) -> None:
    # Seven held-out examples: the ranks cannot share them evenly. FULL_SHARD: every forward pass is a collective.
    more = {"data.eval_size": 7, "trainer.total_steps": 3, "trainer.fsdp_config.sharding_strategy": "FULL_SHARD"}
    config = quick({**choice, **more})
    one_done, two_done = trial(tmp_path / "one", [], config), trial(tmp_path / "two", TORCHRUN, config)
    assert one_done.returncode == 0, one_done.stderr
    assert two_done.returncode == 0, two_done.stderr
    one, two = lines_of(tmp_path / "one"), lines_of(tmp_path / "two")
    assert [line["step"] for line in two] == [line["step"] for line in one]
    compared = 0
    for left, right in zip(one, two, strict=True):
        for name, value in left.get("metrics", {}).items():
            if not name.startswith("perf/"):
                assert right["metrics"][name] == pytest.approx(value, abs=1e-4), name
                compared += 1
    assert compared > 50


def test_a_stopped_trial_saves_its_step_and_goes_on_where_it_was(tmp_path: Path, quick: Quick, lines_of: Lines) -> None:
    (tmp_path / "config.yaml").write_text(
        json.dumps(quick({**DPO, "trainer.total_steps": 4000, "system.logging.progress_freq": 1}))
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command([]), cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step 3/"):
            process.send_signal(signal.SIGTERM)
            break
    process.communicate(timeout=60)
    assert process.returncode == 10
    result = json.loads((tmp_path / "result.json").read_text())
    reached = result["last_step"]
    assert (result["status"], reached >= 3) == ("stopped", True)
    assert lines_of(tmp_path)[-1]["checkpoint"] == f"checkpoints/step_{reached}"
    done = trial(tmp_path, [], quick({**DPO, "trainer.total_steps": 4000, "trainer.until_step": reached + 2}))
    assert done.returncode == 0, done.stderr
    assert [line["step"] for line in lines_of(tmp_path) if "metrics" in line] == list(range(reached + 3))
