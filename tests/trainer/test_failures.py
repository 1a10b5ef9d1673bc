"""Every class of failure, produced by what really causes it."""

from __future__ import annotations

import errno
import os
import pickle
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from trainer.failures import KINDS, DataError, NonFiniteError, WeightSyncError, classify

Lines = Callable[[Path], list[dict[str, object]]]


def reward_module(directory: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> dict[str, object]:
    name = f"reward_{abs(hash(str(directory)))}"
    (directory / f"{name}.py").write_text(f"def score(prompt, response, ground_truth):\n    {body}\n")
    monkeypatch.syspath_prepend(directory)
    return {"reward.name": None, "reward.function": f"{name}:score"}


def test_updates_that_are_never_finite_fail_after_three_steps_and_are_logged_as_null(
    tmp_path: Path, run_here: Callable, lines_of: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = run_here(tmp_path / "run", reward_module(tmp_path, monkeypatch, "return 1e30 * len(response)"))
    assert ended.code == 1
    lines = [line for line in lines_of(tmp_path / "run") if line["step"] > 0]
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert all(line["metrics"]["critic/loss"] is None and "critic/loss" in line["nonfinite"] for line in lines)
    assert ended.result["error"]["kind"] == "non_finite"
    assert ended.result["last_step"] == 3


def test_one_update_that_is_not_finite_is_left_out_and_training_goes_on(
    tmp_path: Path, run_here: Callable, lines_of: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = (
        "import os; os.environ['CALLS'] = str(int(os.environ['CALLS']) + 1); return 1e30 * (os.environ['CALLS'] == '9')"
    )
    monkeypatch.setenv("CALLS", "0")  # 8 calls belong to the first evaluation, the ninth to step 1
    ended = run_here(tmp_path / "run", reward_module(tmp_path, monkeypatch, body))
    assert ended.code == 0
    lines = [line for line in lines_of(tmp_path / "run") if "metrics" in line]
    assert ["nonfinite" in line for line in lines] == [False, True, False, False, False]


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("return float('nan')", "non_finite", "the reward is nan"),
        ("return 1 / 0", "data", "ZeroDivisionError"),
        ("return None", "data", "TypeError"),
        ("raise MemoryError('no room')", "out_of_memory", "MemoryError"),
    ],
)
def test_a_broken_reward_function_is_named(
    tmp_path: Path, run_here: Callable, monkeypatch: pytest.MonkeyPatch, body: str, kind: str, message: str
) -> None:
    ended = run_here(tmp_path / "run", reward_module(tmp_path, monkeypatch, body))
    assert ended.code == 1
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.result["error"]["kind"] == kind


@pytest.mark.parametrize(
    "overrides",
    [
        {"algorithm.truncation": "terminal"},
        {"algorithm.truncation": "bootstrap"},
        {"algorithm.truncation": "mask"},
        {"algorithm.truncation": "mask", "algorithm.adv_estimator": "grpo", "rollout.n": 2},
        {"algorithm.truncation_penalty": 1.0, "algorithm.adv_estimator": "rloo", "rollout.n": 2},
    ],
)
def test_a_run_whose_answers_are_all_cut_goes_on_and_says_so(
    tmp_path: Path, run_here: Callable, lines_of: Lines, overrides: dict[str, object]
) -> None:
    # A model that has learnt to answer with three digits, and little chance to do otherwise.
    cut = {
        "data.max_response_length": 1,
        "model.warm_start.steps": 200,
        "rollout.temperature": 0.3,
        "trainer.optim.lr": 1e-6,
    }
    ended = run_here(tmp_path, {**cut, "trainer.total_steps": 2, **overrides})
    assert ended.code == 0, ended.stderr
    steps = [line for line in lines_of(tmp_path) if "metrics" in line and line["step"]]
    assert [line["metrics"]["response/truncated_fraction"] for line in steps] == [1.0, 1.0]
    assert not any("nonfinite" in line for line in steps)
    if overrides.get("algorithm.truncation") == "mask":
        assert all(line["metrics"]["actor/loss"] == 0.0 for line in steps)


@pytest.mark.parametrize("path", ["no_such_module:score", "json:no_such_function", "json:__name__"])
def test_a_reward_function_that_cannot_be_loaded_is_a_config_failure(
    tmp_path: Path, run_here: Callable, path: str
) -> None:
    ended = run_here(tmp_path, {"reward.name": None, "reward.function": path})
    assert ended.code == 1
    assert ended.result["error"]["kind"] == "config"
    assert "reward.function" in ended.stderr


def test_a_taken_port_is_named(tmp_path: Path, run_here: Callable) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ended = run_here(tmp_path, {"system.distributed.master_port": taken.getsockname()[1]})
    assert ended.code == 1
    assert ended.result["error"]["kind"] == "port_in_use"
    assert "master_port" in ended.stderr


def test_a_device_that_is_not_there_is_a_config_failure(tmp_path: Path, run_here: Callable) -> None:
    import torch

    ended = run_here(tmp_path, {"system.device": "cuda"})
    assert ended.code == (0 if torch.cuda.is_available() else 1)
    assert torch.cuda.is_available() or ended.result["error"]["kind"] == "config"


def test_a_disk_that_is_full_is_a_node_failure(tmp_path: Path, run_here: Callable) -> None:
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    ended = run_here(tmp_path, {})
    assert ended.code == 1
    assert ended.result["error"]["kind"] == "node"


def test_too_few_prompts_are_a_config_failure(tmp_path: Path, run_here: Callable) -> None:
    ended = run_here(tmp_path, {"data.width": 1, "data.train_size": 64})
    assert ended.result["error"]["kind"] == "config"
    assert "has only 10 different prompts" in ended.stderr


def test_a_cache_that_cannot_be_written_costs_time_only(
    tmp_path: Path, run_here: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a-file").write_text("")
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "a-file"))
    ended = run_here(tmp_path / "run", {"trainer.total_steps": 1})
    assert ended.code == 0
    assert "cannot use the model cache" in ended.stderr


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError(), "out_of_memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "out_of_memory"),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"),
            "out_of_memory",
        ),
        (NonFiniteError("x"), "non_finite"),
        (DataError("x"), "data"),
        (WeightSyncError("x"), "weight_sync"),
        (OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)), "port_in_use"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "node"),
        (RuntimeError("Connection closed by peer [127.0.0.1]:4242"), "node"),
        (ZeroDivisionError("x"), "unknown"),
    ],
)
def test_errors_are_classified(error: BaseException, kind: str) -> None:
    failure = classify(error)
    assert failure.kind == kind
    assert failure.kind in KINDS
    assert failure.message


def test_recognised_errors_are_picklable() -> None:
    again = pickle.loads(pickle.dumps(NonFiniteError("what", hint="do this")))
    assert (str(again), again.hint, again.kind) == ("what", "do this", "non_finite")
