"""Losses and gradients are the same for every sharding strategy, number of ranks and split of the batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from trainer.config import ConfigError, build
from trainer.distributed import World, sharding_mesh

ROOT = Path(__file__).resolve().parents[2]
Quick = Callable[..., dict[str, object]]

STRATEGIES = ("FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "NO_SHARD")
TERMS: dict[str, object] = {
    "algorithm.entropy_coeff": 0.1,
    "algorithm.kl_loss_coef": 0.5,
    "algorithm.kl_loss_type": "k3",
    "rollout.n": 2,
    "trainer.ppo_micro_batch_size_per_gpu": 3,
}
BY_TOKENS: dict[str, object] = {"trainer.use_dynamic_bsz": True, "trainer.ppo_max_token_len_per_gpu": 20}


def cases(quick: Quick, size: int) -> dict[str, dict[str, object]]:
    """Configurations by name; four ranks are there for what takes four."""
    chosen: dict[str, dict[str, object]] = {
        name: {"trainer.fsdp_config.sharding_strategy": name} for name in STRATEGIES
    }
    if size == 4:
        chosen["HYBRID_SHARD"]["trainer.fsdp_config.shard_group_size"] = 2
        return {name: quick({**TERMS, **values}) for name, values in chosen.items() if name != "SHARD_GRAD_OP"}
    chosen["by tokens"] = {**BY_TOKENS, "algorithm.loss_agg_mode": "token-mean"}
    chosen["end to end"] = {**BY_TOKENS, "trainer.use_remove_padding": True}
    chosen["bfloat16"] = {"model.dtype": "bfloat16"}
    return {name: quick({**TERMS, **values}) for name, values in chosen.items()}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Quick, int], dict[str, Any]]:
    """What so many ranks see of each case; computed once."""
    kept: dict[int, dict[str, Any]] = {}

    def of(quick: Quick, size: int) -> dict[str, Any]:
        if size not in kept:
            directory = tmp_path_factory.mktemp(f"ranks-{size}")
            (directory / "cases.json").write_text(json.dumps(cases(quick, size)))
            launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)]
            script = str(Path(__file__).with_name("ranks.py"))
            done = subprocess.run(
                [sys.executable, *(launcher if size > 1 else []), script, "cases.json", "seen.pt"],
                cwd=directory,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                timeout=600,
            )
            assert done.returncode == 0, done.stderr[-3000:]
            kept[size] = torch.load(directory / "seen.pt", weights_only=False)
        return kept[size]

    return of


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 4])
def test_losses_and_gradients_do_not_depend_on_strategy_ranks_or_split(quick: Quick, seen: Callable, size: int) -> None:
    usual, found = seen(quick, 1)["SHARD_GRAD_OP"], seen(quick, size)
    assert len(set(usual["lengths"].tolist())) > 1, "responses of one length would hide mistakes"
    assert min(float(gradient.norm()) for gradient in usual["gradients"].values()) > 1e-3
    for name in set(found) - {"bfloat16"}:
        for network, gradient in usual["gradients"].items():
            assert torch.allclose(gradient, found[name]["gradients"][network], atol=1e-5), (name, network)
        for metric, values in usual["values"].items():
            assert found[name]["values"][metric] == pytest.approx(values, abs=1e-5), (name, metric)


@pytest.mark.slow
def test_each_strategy_holds_what_it_says(quick: Quick, seen: Callable) -> None:
    alone, found = seen(quick, 1), seen(quick, 4)
    whole = alone["NO_SHARD"]["held"]
    assert {name: case["mesh"] for name, case in found.items()} == {
        "FULL_SHARD": (4,),
        "HYBRID_SHARD": (2, 2),
        "NO_SHARD": (4, 1),
    }
    assert found["NO_SHARD"]["held"] == whole
    assert found["HYBRID_SHARD"]["held"] == pytest.approx(whole / 2, rel=0.05)
    assert found["FULL_SHARD"]["held"] == pytest.approx(whole / 4, rel=0.05)


@pytest.mark.slow
def test_in_bfloat16_weights_and_reduced_gradients_stay_float32(quick: Quick, seen: Callable) -> None:
    one, two = seen(quick, 1)["bfloat16"], seen(quick, 2)["bfloat16"]
    usual = seen(quick, 1)["SHARD_GRAD_OP"]
    for found in (one, two):
        assert found["types"] == found["gradient types"] == ["torch.float32"]
    for network, gradient in two["gradients"].items():
        # The sum of two ranks' bfloat16 gradients needs more digits than bfloat16 has.
        rounded = gradient.bfloat16().float()
        assert float((gradient != rounded).float().mean()) > 0.3, network
        # Adam's first step is lr times a sign, which bfloat16 turns where a gradient is next to nothing.
        for other in (one["gradients"][network], usual["gradients"][network]):
            assert float(torch.nn.functional.cosine_similarity(gradient, other, dim=0)) > 0.9, network


def test_ranks_that_do_not_split_into_groups_are_refused(quick: Quick) -> None:
    settings = build(
        quick({"trainer.fsdp_config.sharding_strategy": "HYBRID_SHARD", "trainer.fsdp_config.shard_group_size": 4})
    ).trainer.fsdp_config
    world = World(rank=0, size=6, device=torch.device("cpu"), mesh=None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"6 ranks cannot be split into groups of 4 .*1, 2, 3, 6"):
        sharding_mesh(world, settings)


def test_offloading_from_a_cpu_is_refused_with_the_reason(tmp_path: Path, run_here: Callable) -> None:
    ended = run_here(tmp_path, {"trainer.fsdp_config.cpu_offload": True, "system.device": "cpu"})
    assert ended.result["error"]["kind"] == "config"
    assert "trainer.fsdp_config.cpu_offload: got true, but this run is on a CPU" in ended.stderr


def test_a_group_size_that_nothing_reads_is_refused(quick: Quick) -> None:
    with pytest.raises(ConfigError, match="sharding_strategy = FULL_SHARD does not read it"):
        build(quick({"trainer.fsdp_config.sharding_strategy": "FULL_SHARD", "trainer.fsdp_config.shard_group_size": 2}))
