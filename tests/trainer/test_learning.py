"""Learning is real: the shipped default improves on every seed, and two mutants of the formulas do not pass for it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from torch import Tensor

from trainer.config import build, compose
from trainer.loop import Mathematics, ppo_mathematics, run_session
from trainer.signals import StopFlag

CLEAR_MARGIN = 0.25  # reward units; the default gains about 0.4
MOST_KL = 0.3  # nats per token; the default ends near 0.1


def learns(directory: Path, seed: int, mathematics: Mathematics | None = None, name: str = "config") -> bool:
    """Whether 40 steps of a shipped configuration raise the held-out reward and stay near the reference."""
    quiet = {"trainer.seed": seed, "system.num_threads": 1, "system.logging.progress_freq": 0}
    config = build(compose(name, overrides=quiet))
    run_session(config, directory, StopFlag(), mathematics=mathematics)
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    metrics = [line["metrics"] for line in lines if "metrics" in line]
    evaluations = [entry["eval/reward"] for entry in metrics if "eval/reward" in entry]
    gain = sum(evaluations[-5:]) / 5 - evaluations[0]
    kl = sum(entry["kl/actor_ref"] for entry in metrics[-5:]) / 5
    assert len(metrics) == 41
    assert 0.3 < evaluations[0] < 0.7, "the warm start must leave room and be far above chance"
    return gain > CLEAR_MARGIN and kl < MOST_KL


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_default_learns(tmp_path: Path, one_thread: None, seed: int) -> None:
    assert learns(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grpo"])
def test_an_algorithm_without_a_critic_learns(tmp_path: Path, one_thread: None, name: str) -> None:
    assert learns(tmp_path, 0, name=name)


def advantages_flipped() -> Mathematics:
    right = ppo_mathematics("gae")

    def flipped(*arguments: Tensor, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
        advantages, returns = right.advantages(*arguments, gamma=gamma, lam=lam)
        return -advantages, returns

    return dataclasses.replace(right, advantages=flipped)


def kl_flipped() -> Mathematics:
    right = ppo_mathematics("gae")

    def flipped(scores: Tensor, kl: Tensor, response_mask: Tensor, *, kl_coef: float) -> Tensor:
        return right.token_rewards(scores, -kl, response_mask, kl_coef=kl_coef)

    return dataclasses.replace(right, token_rewards=flipped)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [advantages_flipped, kl_flipped])
def test_a_flipped_sign_is_found_out(tmp_path: Path, one_thread: None, mutant) -> None:
    assert not learns(tmp_path, 0, mutant())


@pytest.mark.slow
def test_a_policy_let_far_from_its_reference_exploits_the_partial_grader_and_one_held_near_does_not(
    tmp_path: Path, one_thread: None
) -> None:
    def curve(name: str, lr: float, kl_coef: float) -> tuple[list[float], list[float]]:
        quiet = {"system.num_threads": 1, "system.logging.progress_freq": 0, "trainer.save_freq": 0}
        chosen = {"reward": "partial_to_nines", "trainer.optim.lr": lr, "algorithm.kl_ctrl.kl_coef": kl_coef}
        config = build(compose(overrides={**quiet, **chosen, "trainer.total_steps": 22}))
        (tmp_path / name).mkdir()
        run_session(config, tmp_path / name, StopFlag())
        lines = [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        metrics = [line["metrics"] for line in lines if "metrics" in line]
        return [entry["eval/reward"] for entry in metrics], [entry["reward/mean"] for entry in metrics[1:]]

    gold, paid = curve("bold", 5e-4, 0.001)
    assert max(gold) > gold[0] + 0.1, "at first what pays is what was wanted"
    assert gold[-1] < gold[0] - 0.2, "then it is not"
    assert paid[-1] > paid[gold.index(max(gold))] + 0.1
    gold, _ = curve("held", 2e-4, 0.05)
    assert gold[-1] > gold[0] + 0.05
