"""`debug: true` says where memory sits and how large the gradient of each component is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from trainer.loop.debug import gradient_norms


def test_debug_shows_memory_and_gradient_norms_per_component(tmp_path: Path, run_here: Callable) -> None:
    ended = run_here(tmp_path, {"debug": True, "trainer.total_steps": 1, "algorithm.entropy_coeff": 0.1})
    assert ended.code == 0
    shown = [line for line in ended.stderr.splitlines() if "debug 1" in line]
    memory = next(line for line in shown if "memory_mb" in line)
    sizes = {name: float(size) for name, size in re.findall(r"(\w+) ([\d.]+)", memory.split("memory_mb")[1])}
    assert set(sizes) == {"reference", "actor", "actor_optimizer", "critic", "critic_optimizer"}
    assert sizes["actor"] == sizes["reference"] > 0
    assert sizes["actor_optimizer"] == pytest.approx(2 * sizes["actor"], abs=0.002)  # AdamW's two moments
    actor = next(line for line in shown if "actor gradient" in line)
    assert re.findall(r"([a-z_.\d]+) [\d.e+-]+", actor.split("gradient")[1]) == [
        "embed_tokens",
        "layers.0",
        "norm",
        "lm_head",
    ]
    assert any("critic gradient" in line and "head" in line for line in shown)


def test_without_debug_nothing_of_it_is_shown(tmp_path: Path, run_here: Callable) -> None:
    said = run_here(tmp_path, {"trainer.total_steps": 1}).stderr
    assert "memory_mb" not in said
    assert "gradient" not in said


def test_component_norms_add_up_to_the_whole_norm() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    model(torch.ones(5, 3)).square().sum().backward()
    norms = gradient_norms(model)
    assert set(norms) == {"0", "1"}
    whole = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
    assert sum(norm**2 for norm in norms.values()) == pytest.approx(float(whole) ** 2, rel=1e-5)
