"""Reward functions: `(prompt, response, ground_truth) -> float`, built in or a person's own."""

from __future__ import annotations

from trainer.rewards.builtin import exact_match, partial_to_nines, prefix_match
from trainer.rewards.gsm8k import gsm8k
from trainer.rewards.load import Reward, RewardFunction, load_eval_reward, load_reward

REWARDS: dict[str, RewardFunction] = {
    "prefix_match": prefix_match,
    "exact_match": exact_match,
    "partial_to_nines": partial_to_nines,
    "gsm8k": gsm8k,
}

__all__ = [
    "REWARDS",
    "Reward",
    "RewardFunction",
    "exact_match",
    "gsm8k",
    "load_eval_reward",
    "load_reward",
    "partial_to_nines",
    "prefix_match",
]
