"""Reward functions: `(prompt, response, ground_truth) -> float`, built in or a person's own."""

from __future__ import annotations

from trainer.rewards.builtin import exact_match, prefix_match
from trainer.rewards.load import RewardFunction, load_reward, score

REWARDS: dict[str, RewardFunction] = {"prefix_match": prefix_match, "exact_match": exact_match}

__all__ = ["REWARDS", "RewardFunction", "exact_match", "load_reward", "prefix_match", "score"]
