"""Two ranks train like one, and a single process opens nothing to the network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Quick = Callable[..., dict[str, object]]
Lines = Callable[[Path], list[dict[str, object]]]


def trial(directory: Path, launcher: list[str], config: dict[str, object]) -> subprocess.CompletedProcess[str]:
    directory.mkdir(exist_ok=True)
    (directory / "config.yaml").write_text(json.dumps(config))
    return subprocess.run(
        [sys.executable, *launcher, "-m", "trainer", "--trial"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )


DYNAMIC: dict[str, object] = {
    # Sequences of 5 to 9 tokens: the ranks need different numbers of micro-batches by themselves.
    "trainer.use_dynamic_bsz": True,
    "trainer.ppo_max_token_len_per_gpu": 16,
    "algorithm.adv_estimator": "grpo",
    "algorithm.loss_agg_mode": "seq-mean-token-mean",
    "algorithm.kl_loss_coef": 0.1,
}


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, DYNAMIC], ids=["ppo", "grpo by tokens"])
def test_two_ranks_give_the_curves_of_one_and_rank_0_alone_writes(
    tmp_path: Path, quick: Quick, lines_of: Lines, more: dict[str, object]
) -> None:
    settings = {"trainer.total_steps": 10, "algorithm.entropy_coeff": 0.01, "rollout.n": 2, "trainer.ppo_epochs": 2}
    # The built-in rewards are 0 for so small a model, and then no advantage would reach the gradient.
    parts = {"varied": {"function": "varied:score", "weight": 0.9}, "prefix": {"name": "prefix_match", "weight": 0.1}}
    reward = {"reward.name": None, "reward.components": parts}
    body = "def score(prompt, response, ground_truth):\n    return sum(map(ord, response)) % 7 / 7\n"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "varied.py").write_text(body)
    config = quick({**settings, **reward, **more})
    two = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    one_done, two_done = trial(tmp_path / "one", [], config), trial(tmp_path / "two", two, config)
    assert one_done.returncode == 0, one_done.stderr
    assert two_done.returncode == 0, two_done.stderr
    one, two_lines = lines_of(tmp_path / "one"), lines_of(tmp_path / "two")
    assert [line["step"] for line in two_lines] == [line["step"] for line in one]
    compared = 0
    for left, right in zip(one, two_lines, strict=True):
        for name, value in left.get("metrics", {}).items():
            if not name.startswith("perf/"):
                assert right["metrics"][name] == pytest.approx(value, abs=1e-4), name
                compared += 1
    assert compared > 200


@pytest.mark.slow
def test_checkpoints_go_from_one_rank_to_two_and_back(
    tmp_path: Path, quick: Quick, lines_of: Lines, run_here: Callable
) -> None:
    settings = {"trainer.total_steps": 6, "trainer.optim.scheduler": "cosine", "trainer.ppo_epochs": 2}
    assert run_here(tmp_path / "whole", settings).code == 0
    assert run_here(tmp_path / "parts", {**settings, "trainer.until_step": 2}).code == 0
    two = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    # What is saved does not depend on how the ranks shared it.
    repeated = {"trainer.until_step": 4, "trainer.fsdp_config.sharding_strategy": "NO_SHARD"}
    done = trial(tmp_path / "parts", two, quick({**settings, **repeated}))
    assert "resuming after step 2" in done.stderr, done.stderr
    ended = run_here(tmp_path / "parts", settings)
    assert "resuming after step 4" in ended.stderr
    whole, parts = (
        {line["step"]: line["metrics"] for line in lines_of(tmp_path / name) if "metrics" in line}
        for name in ("whole", "parts")
    )
    assert list(parts) == list(whole) == list(range(7))
    for step, metrics in whole.items():
        for name, value in metrics.items():
            assert name.startswith("perf/") or parts[step][name] == pytest.approx(value, abs=1e-4), (step, name)


@pytest.mark.slow
def test_a_batch_that_two_ranks_cannot_share_is_a_config_failure(tmp_path: Path, quick: Quick) -> None:
    two = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = trial(tmp_path, two, quick({"trainer.train_batch_size": 7, "trainer.mini_batch_size": 7}))
    assert done.returncode != 0
    assert "7 responses cannot be split evenly over 2 ranks" in done.stderr
    assert json.loads((tmp_path / "result.json").read_text())["error"]["kind"] == "config"


def test_a_single_process_opens_nothing_to_the_network(one_thread: None) -> None:
    from trainer.config import DistributedConfig, LoggingConfig, ProfileConfig, SystemConfig
    from trainer.distributed import open_world

    config = SystemConfig(
        device="cpu",
        num_threads=None,
        determinism=False,
        distributed=DistributedConfig(master_port=None, timeout_s=60),
        logging=LoggingConfig(progress_freq=0),
        profile=ProfileConfig(steps=0, first_step=1, rows=1),
    )
    before = listening_sockets()
    with open_world(config) as world:
        assert (world.rank, world.size) == (0, 1)
        assert all(address.startswith("0100007F:") for address in listening_sockets() - before)


def listening_sockets() -> set[str]:
    """Local addresses (hexadecimal, as the kernel shows them) of this process's listening TCP sockets."""
    mine = {str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()}
    listening = set()
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        for row in Path(table).read_text().splitlines()[1:]:
            columns = row.split()
            if columns[3] == "0A" and f"socket:[{columns[9]}]" in mine:
                listening.add(columns[1])
    return listening
