"""A step whose only update measures the actor: the same run, with one forward pass less."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainer.config import Config, build, compose
from trainer.loop.collect import update_measures

GRPO: dict[str, object] = {
    "algorithm": "grpo",
    "rollout.n": 4,
    "trainer.train_batch_size": 4,
    "trainer.mini_batch_size": 4,
    "trainer.ppo_micro_batch_size_per_gpu": 6,
    "trainer.total_steps": 3,
    "trainer.save_freq": 0,
}


def config(overrides: dict[str, object] | None = None) -> Config:
    return build(compose(overrides={**GRPO, **(overrides or {})}))


def test_one_update_per_response_measures() -> None:
    assert update_measures(config(), step=1)


@pytest.mark.parametrize(
    "overrides",
    [
        {"trainer.mini_batch_size": 2},
        {"trainer.ppo_epochs": 2},
        {"algorithm.kl_ctrl.kl_coef": 0.01},
        {"algorithm.rollout_is_threshold": 2.0},
    ],
)
def test_what_needs_the_numbers_earlier_or_twice_measures_first(overrides: dict[str, object]) -> None:
    assert not update_measures(config(overrides), step=1)


def test_while_the_actor_rests_nothing_is_left_to_its_update() -> None:
    warming = config({"algorithm": "ppo", "algorithm.kl_ctrl.kl_coef": 0.0, "trainer.critic_warmup": 2})
    assert [update_measures(warming, step) for step in (1, 2, 3)] == [False, False, True]


def rows(directory: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [line["metrics"] for line in lines if "metrics" in line]


@pytest.mark.parametrize("entropy_coeff", [0.0, 0.01])
def test_the_run_is_the_same_as_with_a_pass_of_its_own(
    tmp_path: Path, run_here: Callable, monkeypatch: pytest.MonkeyPatch, entropy_coeff: float
) -> None:
    overrides = {**GRPO, "algorithm.entropy_coeff": entropy_coeff}
    passes: list[bool] = []

    def counting(settings: Config, step: int) -> bool:
        passes.append(update_measures(settings, step))
        return passes[-1]

    monkeypatch.setattr("trainer.loop.ppo.update_measures", counting)
    assert run_here(tmp_path / "by update", overrides).code == 0
    assert passes == [True, True, True]
    monkeypatch.setattr("trainer.loop.ppo.update_measures", lambda settings, step: False)
    assert run_here(tmp_path / "before", overrides).code == 0
    for got, wanted in zip(rows(tmp_path / "by update"), rows(tmp_path / "before"), strict=True):
        assert got.keys() == wanted.keys()
        for name, value in wanted.items():
            if not name.startswith("perf/"):
                assert got[name] == pytest.approx(value, abs=2e-5), name


def test_a_run_with_all_savings_resumes_to_the_bit(
    tmp_path: Path, run_here: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer.loop.shared_prompts.WORTHWHILE", {"cpu": 1})
    settings = {**GRPO, "trainer.fsdp_config.sharding_strategy": "NO_SHARD"}
    assert run_here(tmp_path / "whole", settings).code == 0
    assert run_here(tmp_path / "parts", {**settings, "trainer.until_step": 2}).code == 0
    again = run_here(tmp_path / "parts", settings)
    assert (again.code, again.result["last_step"]) == (0, 3)
    whole, parts = rows(tmp_path / "whole"), rows(tmp_path / "parts")
    assert len(parts) == len(whole) == 4
    for got, wanted in zip(parts, whole, strict=True):
        assert {name: value for name, value in got.items() if not name.startswith("perf/")} == {
            name: value for name, value in wanted.items() if not name.startswith("perf/")
        }
