"""Whole runs of the algorithms that need no critic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Lines = Callable[[Path], list[dict[str, object]]]


def metrics_of(lines: list[dict[str, object]]) -> list[dict[str, float]]:
    return [line["metrics"] for line in lines if line.get("step") and "metrics" in line]


@pytest.mark.parametrize(
    "choice",
    [
        {"algorithm": "grpo"},
        {"algorithm": "grpo", "algorithm.adv_estimator": "dr_grpo", "trainer.use_dynamic_bsz": True},
        {"algorithm": "rloo", "algorithm.truncation_penalty": 0.5, "data.max_response_length": 4},
        {"algorithm": "reinforce_pp"},
        {"algorithm": "reinforce_pp", "algorithm.adv_estimator": "reinforce_pp_baseline"},
    ],
    ids=lambda choice: str(choice.get("algorithm.adv_estimator", choice["algorithm"])),
)
def test_a_run_without_a_critic_finishes_and_goes_on_from_its_checkpoint(
    tmp_path: Path, run_here: Callable, lines_of: Lines, choice: dict[str, object]
) -> None:
    settings = {"rollout.n": 2, "trainer.total_steps": 3, "trainer.ppo_max_token_len_per_gpu": 40, **choice}
    assert run_here(tmp_path / "whole", settings).code == 0
    assert run_here(tmp_path / "parts", {**settings, "trainer.until_step": 2}).code == 0
    assert run_here(tmp_path / "parts", settings).code == 0
    whole, parts = (metrics_of(lines_of(tmp_path / name)) for name in ("whole", "parts"))
    assert len(whole) == len(parts) == 3
    for left, right in zip(whole, parts, strict=True):
        assert not [name for name in left if name.startswith("critic/")]
        assert {k: v for k, v in left.items() if not k.startswith("perf/")} == {
            k: v for k, v in right.items() if not k.startswith("perf/")
        }


def test_a_group_of_one_runs_and_says_what_it_means(tmp_path: Path, run_here: Callable) -> None:
    ended = run_here(tmp_path, {"algorithm": "grpo", "trainer.total_steps": 1})
    assert ended.code == 0
    assert "with rollout.n = 1 nothing is compared: algorithm.adv_estimator = grpo" in ended.stderr


def test_options_of_the_loss_report_what_they_do(tmp_path: Path, run_here: Callable, lines_of: Lines) -> None:
    options = {
        "trainer.total_steps": 1,
        "algorithm.clip_ratio_c": 3.0,
        "algorithm.rollout_is_threshold": 0.5,
        "algorithm.kl_loss_coef": 0.1,
    }
    assert run_here(tmp_path, options).code == 0
    (metrics,) = metrics_of(lines_of(tmp_path))
    assert metrics["actor/importance_mean"] == pytest.approx(0.5)  # the engine agrees with the trainer
    assert metrics["actor/dual_clip_fraction"] == 0.0
    assert metrics["actor/kl_loss"] >= 0.0


def test_a_warming_critic_reports_no_loss_of_the_actor(tmp_path: Path, run_here: Callable, lines_of: Lines) -> None:
    assert run_here(tmp_path, {"trainer.total_steps": 2, "trainer.critic_warmup": 1}).code == 0
    first, second = metrics_of(lines_of(tmp_path))
    assert "critic/loss" in first
    assert "actor/loss" not in first
    assert "actor/loss" in second
