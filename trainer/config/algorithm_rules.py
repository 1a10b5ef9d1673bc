"""Rules over several keys of the algorithm and its batches."""

from __future__ import annotations

from trainer.config.problems import ConfigProblem
from trainer.config.schema import Config


def algorithm_problems(config: Config) -> list[ConfigProblem]:
    """Every rule on estimators, losses, truncation and token budgets that this configuration breaks."""
    rules = (_without_critic, _warmup, _overlong, _dual_clip, _kl_loss, _token_budget)
    return [problem for rule in rules for problem in rule(config)]


def _without_critic(config: Config) -> list[ConfigProblem]:
    algorithm = config.algorithm
    if algorithm.needs_critic or algorithm.learns_from_preferences:
        return []
    problems = []
    if algorithm.truncation == "bootstrap":
        message = f"got 'bootstrap', but adv_estimator = {algorithm.adv_estimator} has no critic to value what follows"
        problems.append(ConfigProblem(path="algorithm.truncation", message=message, hint="use terminal or mask"))
    if config.trainer.critic_warmup:
        message = f"got {config.trainer.critic_warmup}, but adv_estimator = {algorithm.adv_estimator} has no critic"
        problems.append(ConfigProblem(path="trainer.critic_warmup", message=message, hint="set it to 0"))
    return problems


def _warmup(config: Config) -> list[ConfigProblem]:
    warmup, total = config.trainer.critic_warmup, config.trainer.total_steps
    if warmup < total:
        return []
    message = f"got {warmup}, must be below trainer.total_steps = {total}, or the actor is never trained"
    return [ConfigProblem(path="trainer.critic_warmup", message=message, hint="lower it or train longer")]


def _overlong(config: Config) -> list[ConfigProblem]:
    buffer, longest = config.algorithm.overlong_buffer, config.data.max_response_length
    problems = []
    if buffer > longest:
        message = f"got {buffer}, must be at most data.max_response_length = {longest}"
        problems.append(ConfigProblem(path="algorithm.overlong_buffer", message=message, hint="lower it"))
    if buffer and not config.algorithm.truncation_penalty:
        message = f"got {buffer}, but algorithm.truncation_penalty = 0 takes nothing off"
        problems.append(
            ConfigProblem(path="algorithm.overlong_buffer", message=message, hint="set the penalty, or this to 0")
        )
    return problems


def _dual_clip(config: Config) -> list[ConfigProblem]:
    algorithm = config.algorithm
    high = algorithm.clip_ratio if algorithm.clip_ratio_high is None else algorithm.clip_ratio_high
    if algorithm.clip_ratio_c is None or algorithm.clip_ratio_c > 1.0 + high:
        return []
    message = f"got {algorithm.clip_ratio_c:g}, must be above 1 + the upper clip = {1.0 + high:g}"
    return [ConfigProblem(path="algorithm.clip_ratio_c", message=message, hint="usual: 3; null turns it off")]


def _kl_loss(config: Config) -> list[ConfigProblem]:
    if config.algorithm.kl_loss_type != "k1":
        return []
    message = (
        "got 'k1', must be k2 or k3: the gradient of k1 on the policy's own samples is zero on average, so as a loss "
        "it adds noise and no pull to the reference"
    )
    hint = "k2 has the gradient of the KL; k1 is what the penalty in the reward (algorithm.kl_ctrl) uses"
    return [ConfigProblem(path="algorithm.kl_loss_type", message=message, hint=hint)]


def _token_budget(config: Config) -> list[ConfigProblem]:
    budget = config.trainer.ppo_max_token_len_per_gpu
    longest = config.data.max_prompt_length + config.data.max_response_length
    if not config.trainer.use_dynamic_bsz or budget >= longest:
        return []
    message = (
        f"got {budget}, must hold the longest sequence: data.max_prompt_length + data.max_response_length = {longest}"
    )
    return [
        ConfigProblem(path="trainer.ppo_max_token_len_per_gpu", message=message, hint=f"use at least {longest} tokens")
    ]
