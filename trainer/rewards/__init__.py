"""Rewards: functions `(prompt, response, ground_truth) -> float`, built in or one's own, models, and sums of such."""

from __future__ import annotations

from trainer.rewards.builtin import exact_match, partial_to_nines, prefix_match
from trainer.rewards.gsm8k import gsm8k
from trainer.rewards.load import Reward, RewardFunction, load_eval_reward, load_reward
from trainer.rewards.weighted import Component, Scorer, WeightedReward, component_names, score_rows

REWARDS: dict[str, RewardFunction] = {
    "prefix_match": prefix_match,
    "exact_match": exact_match,
    "partial_to_nines": partial_to_nines,
    "gsm8k": gsm8k,
}

__all__ = [
    "REWARDS",
    "Component",
    "Reward",
    "RewardFunction",
    "Scorer",
    "WeightedReward",
    "component_names",
    "exact_match",
    "gsm8k",
    "load_eval_reward",
    "load_reward",
    "partial_to_nines",
    "prefix_match",
    "score_rows",
]
