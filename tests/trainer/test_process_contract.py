"""`python -m trainer --trial` as a real process: its files, its exit codes, its answer to signals."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trainer.config import METRICS

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "trainer", "--trial"]
Quick = Callable[..., dict[str, object]]
Lines = Callable[[Path], list[dict[str, object]]]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def run_trial(directory: Path, config: object) -> subprocess.CompletedProcess[str]:
    (directory / "config.yaml").write_text(config if isinstance(config, str) else json.dumps(config))
    return subprocess.run(COMMAND, cwd=directory, env=environment(), capture_output=True, text=True, timeout=120)


def result_of(directory: Path) -> dict[str, object]:
    return json.loads((directory / "result.json").read_text())


def test_a_trial_writes_one_line_per_step_and_a_result(tmp_path: Path, quick: Quick, lines_of: Lines) -> None:
    # With every option that has a metric of its own.
    options = {"clip_ratio_c": 3.0, "rollout_is_threshold": 2.0, "kl_loss_coef": 0.01}
    settings = {f"algorithm.{name}": value for name, value in options.items()}
    done = run_trial(tmp_path, quick({"trainer.save_freq": 2, "reward.normalize": "scale", **settings}))
    assert done.returncode == 0, done.stderr
    lines = lines_of(tmp_path)
    assert [line["step"] for line in lines if "metrics" in line] == [0, 1, 2, 3, 4]
    assert list(lines[0]["metrics"]) == ["eval/reward", "eval/accuracy", "eval/length_mean", "eval/truncated_fraction"]
    assert [line["checkpoint"] for line in lines if "checkpoint" in line] == [
        "checkpoints/step_2",
        "checkpoints/step_4",
    ]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step_2", "step_4"]
    result = result_of(tmp_path)
    assert result["status"] == "finished"
    assert result["last_step"] == 4
    assert result["error"] is None
    assert result["peak_memory_gb"] > 0.05
    assert done.stdout == ""
    assert set(lines[1]["metrics"]) == set(METRICS)


def test_a_stopped_trial_saves_its_step_and_goes_on_where_it_was(tmp_path: Path, quick: Quick, lines_of: Lines) -> None:
    (tmp_path / "config.yaml").write_text(
        json.dumps(quick({"trainer.total_steps": 4000, "system.logging.progress_freq": 1}))
    )
    process = subprocess.Popen(COMMAND, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step 3/"):
            process.send_signal(signal.SIGTERM)
            break
    process.communicate(timeout=60)
    assert process.returncode == 10
    reached = result_of(tmp_path)["last_step"]
    assert result_of(tmp_path)["status"] == "stopped"
    assert reached >= 3
    assert lines_of(tmp_path)[-1]["checkpoint"] == f"checkpoints/step_{reached}"

    done = run_trial(tmp_path, quick({"trainer.total_steps": 4000, "trainer.until_step": reached + 2}))
    assert done.returncode == 0, done.stderr
    assert [line["step"] for line in lines_of(tmp_path) if "metrics" in line] == list(range(reached + 3))


def test_an_interrupt_is_a_stop(tmp_path: Path, quick: Quick) -> None:
    config = quick({"trainer.total_steps": 4000, "system.logging.progress_freq": 1})
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    process = subprocess.Popen(COMMAND, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step 1/"):
            process.send_signal(signal.SIGINT)
            break
    process.communicate(timeout=60)
    assert process.returncode == 10
    assert result_of(tmp_path)["status"] == "stopped"


def test_a_stop_during_the_start_ends_without_training(tmp_path: Path, quick: Quick) -> None:
    (tmp_path / "config.yaml").write_text(json.dumps(quick({"trainer.total_steps": 4000})))
    # The handlers stand before anything slow is imported, so the earliest visible sign is enough: the removed result.
    (tmp_path / "result.json").write_text("{}")
    process = subprocess.Popen(COMMAND, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True)
    while (tmp_path / "result.json").exists() and process.poll() is None:
        os.sched_yield()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 10
    assert result_of(tmp_path) == {
        "status": "stopped",
        "last_step": 0,
        "peak_memory_gb": result_of(tmp_path)["peak_memory_gb"],
        "error": None,
    }


def test_a_wrong_configuration_names_every_problem(tmp_path: Path, quick: Quick) -> None:
    config = quick()
    config["trainer"]["mini_batch_size"] = 0
    config["trainer"]["optim"]["lr"] = "fast"
    config["algorithm"]["clip_ratoi"] = 0.2
    done = run_trial(tmp_path, config)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "trainer.mini_batch_size: got 0, must be >= 1" in done.stderr
    assert "trainer.optim.lr: got 'fast', must be a number" in done.stderr
    assert "did you mean 'algorithm.clip_ratio'?" in done.stderr
    result = result_of(tmp_path)
    assert (result["status"], result["error"]["kind"], result["last_step"]) == ("failed", "config", 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "must be a mapping"),
        ("a: [", "no valid YAML"),
        (None, "cannot read"),
    ],
)
def test_an_unusable_file_is_a_config_failure(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "config.yaml").write_text(text)
    done = subprocess.run(COMMAND, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert message in done.stderr
    assert result_of(tmp_path)["error"]["kind"] == "config"


def test_help_needs_no_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('torch is not installed')\n")
    environment_without = {**environment(), "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-m", "trainer", "--help"], env=environment_without, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert "--trial" in done.stdout


def test_a_run_of_its_own_prints_all_problems_and_leaves_a_result(tmp_path: Path) -> None:
    arguments = ["--run-dir", str(tmp_path / "run"), "trainer.optim.lr=0", "trainer.mini_batch_size=48", "nonsense"]
    done = subprocess.run([*COMMAND[:-1], *arguments], env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "nonsense: is not of the form key=value" in done.stderr
    assert result_of(tmp_path / "run")["error"]["kind"] == "config"


def test_a_run_of_its_own_can_be_repeated_as_a_trial(tmp_path: Path, quick: Quick, run_here: Callable) -> None:
    assert run_here(tmp_path, {"trainer.total_steps": 1}).code == 0
    assert json.loads((tmp_path / "config.yaml").read_text()) == quick({"trainer.total_steps": 1})


def test_a_trial_takes_no_other_argument(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "trainer.seed=1"], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 2
    assert "leave out every other argument" in done.stderr


def test_a_trial_dies_with_its_parent(tmp_path: Path, quick: Quick) -> None:
    config = quick({"trainer.total_steps": 1_000_000})
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    parent_code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-m', 'trainer', '--trial'])\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", parent_code], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    while not (tmp_path / "metrics.jsonl").exists() and parent.poll() is None:
        os.sched_yield()
    parent.kill()
    parent.wait()
    waiting = select.poll()
    # The child's death is seen through its end of the inherited pipe: reading ends when nobody holds it any more.
    waiting.register(parent.stdout, select.POLLHUP)
    assert waiting.poll(20_000), f"process {child} outlived its parent"
    assert not (tmp_path / "result.json").exists()
