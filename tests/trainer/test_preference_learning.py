"""Learning from preferences is real: the shipped experiments improve what is answered, and mutants are found out."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from torch import Tensor

from trainer.algorithms import dpo_loss, kto_loss
from trainer.config import build, compose
from trainer.loop import Mathematics, ppo_mathematics, run_session
from trainer.signals import StopFlag

CLEAR_MARGIN = 0.25  # reward units; the experiments gain about 0.45
MOST_KL = 0.45  # nats per token; solving the task costs about 0.25


def learns(directory: Path, name: str, seed: int = 0, mathematics: Mathematics | None = None) -> bool:
    """Whether 40 steps of a shipped experiment raise the reward of what is answered, near the reference."""
    quiet = {"system.num_threads": 1, "system.logging.progress_freq": 0, "trainer.test_freq": 20}
    config = build(compose(name, overrides={"trainer.seed": seed, **quiet}))
    run_session(config, directory, StopFlag(), mathematics=mathematics)
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    metrics = [line["metrics"] for line in lines if "metrics" in line]
    first, last = metrics[0], metrics[-1]
    assert len(metrics) == 41
    assert 0.3 < first["eval/reward"] < 0.7, "the warm start must leave room and be far above chance"
    assert first["eval/preference_accuracy"] == pytest.approx(0.5, abs=0.1), "the reference prefers nothing to itself"
    gained = last["eval/reward"] - first["eval/reward"] > CLEAR_MARGIN
    return gained and last["kl/actor_ref"] < MOST_KL and last["eval/preference_accuracy"] > 0.65


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), [("dpo", 0), ("dpo", 1), ("kto", 0), ("kto", 1)])
def test_the_experiments_learn(tmp_path: Path, one_thread: None, name: str, seed: int) -> None:
    assert learns(tmp_path, name, seed)


def answers_swapped() -> Mathematics:
    def swapped(chosen: Tensor, rejected: Tensor, *, beta: float, label_smoothing: float) -> Tensor:
        return dpo_loss(rejected, chosen, beta=beta, label_smoothing=label_smoothing)

    return dataclasses.replace(ppo_mathematics("gae"), pair_losses={"sigmoid": swapped})


def labels_flipped() -> Mathematics:
    def flipped(log_ratios: Tensor, desirable: Tensor, baseline: Tensor, **settings: float) -> Tensor:
        return kto_loss(log_ratios, ~desirable, baseline, **settings)

    return dataclasses.replace(ppo_mathematics("gae"), kto_loss=flipped)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mutant"), [("dpo", answers_swapped), ("kto", labels_flipped)])
def test_a_flipped_sign_is_found_out(
    tmp_path: Path, one_thread: None, name: str, mutant: Callable[[], Mathematics]
) -> None:
    assert not learns(tmp_path, name, mathematics=mutant())
