"""Rules over several keys."""

from __future__ import annotations

from collections.abc import Callable

from trainer.config.problems import ConfigProblem
from trainer.config.schema import Config


def cross_field_problems(config: Config) -> list[ConfigProblem]:
    """Every rule that this configuration breaks."""
    return [problem for rule in _RULES for problem in rule(config)]


def world_size_problems(config: Config, world_size: int) -> list[ConfigProblem]:
    """What only the number of ranks can tell: every batch must split evenly over them."""
    problems = []
    sizes = {
        "trainer.train_batch_size": config.trainer.train_batch_size,
        "trainer.mini_batch_size": config.trainer.mini_batch_size * config.rollout.n,
    }
    for path, size in sizes.items():
        if size % world_size:
            message = f"{size} responses cannot be split evenly over {world_size} ranks"
            problems.append(ConfigProblem(path=path, message=message, hint=f"use a multiple of {world_size}"))
    return problems


def _batches(config: Config) -> list[ConfigProblem]:
    train, mini = config.trainer.train_batch_size, config.trainer.mini_batch_size
    problems = []
    if train % mini:
        message = f"got {mini}, must divide trainer.train_batch_size = {train}"
        fitting = [size for size in range(1, train + 1) if train % size == 0]
        closest = min(fitting, key=lambda size: abs(size - mini))
        problems.append(ConfigProblem(path="trainer.mini_batch_size", message=message, hint=f"{closest} would do"))
    if config.data.train_size < train:
        message = f"got {train}, but there are only data.train_size = {config.data.train_size} prompts"
        problems.append(
            ConfigProblem(path="trainer.train_batch_size", message=message, hint="lower it or raise data.train_size")
        )
    return problems


def _schedule(config: Config) -> list[ConfigProblem]:
    warmup, total = config.trainer.optim.warmup_steps, config.trainer.total_steps
    if warmup <= total:
        return []
    message = f"got {warmup}, must be at most trainer.total_steps = {total}"
    return [ConfigProblem(path="trainer.optim.warmup_steps", message=message, hint="lower it or train longer")]


def _kl(config: Config) -> list[ConfigProblem]:
    kl = config.algorithm.kl_ctrl
    problems = []
    if kl.type == "adaptive":
        for name in ("target_kl", "horizon"):
            if getattr(kl, name) is None:
                message = "is null, but algorithm.kl_ctrl.type = adaptive needs it"
                problems.append(
                    ConfigProblem(path=f"algorithm.kl_ctrl.{name}", message=message, hint="set it or use type: fixed")
                )
        if kl.kl_coef == 0:
            message = "is 0, and an adaptive controller multiplies: it would stay 0 for ever"
            problems.append(ConfigProblem(path="algorithm.kl_ctrl.kl_coef", message=message, hint="start at 0.001"))
    return problems


def _clip(config: Config) -> list[ConfigProblem]:
    low, high = config.algorithm.clip_ratio, config.algorithm.clip_ratio_high
    problems = []
    if low >= 1:
        message = f"got {low:g}, must be < 1 (the ratio is clipped to [1 - clip_ratio, ...])"
        problems.append(ConfigProblem(path="algorithm.clip_ratio", message=message, hint="usual: 0.1 to 0.3"))
    if high is not None and high < low:
        message = f"got {high:g}, must be at least algorithm.clip_ratio = {low:g}"
        problems.append(ConfigProblem(path="algorithm.clip_ratio_high", message=message, hint="null means the same"))
    return problems


def _reward(config: Config) -> list[ConfigProblem]:
    name, function = config.reward.name, config.reward.function
    if (name is None) == (function is None):
        message = f"reward.name = {name!r} and reward.function = {function!r}: exactly one must be set"
        return [ConfigProblem(path="reward", message=message, hint="set the other one to null")]
    if function is not None and (function.count(":") != 1 or not all(function.split(":"))):
        message = f"got {function!r}, must be 'module:function'"
        return [ConfigProblem(path="reward.function", message=message, hint="for example my_rewards:score")]
    return []


def _model(config: Config) -> list[ConfigProblem]:
    hidden, heads = config.model.hidden_size, config.model.num_heads
    if hidden % heads == 0 and (hidden // heads) % 2 == 0:
        return []
    message = f"got {hidden}, must be an even multiple of model.num_heads = {heads} (rotary embeddings come in pairs)"
    return [
        ConfigProblem(
            path="model.hidden_size", message=message, hint=f"{2 * heads * max(1, hidden // (2 * heads))} would do"
        )
    ]


def _until(config: Config) -> list[ConfigProblem]:
    until, total = config.trainer.until_step, config.trainer.total_steps
    if until is None or until <= total:
        return []
    message = f"got {until}, must be at most trainer.total_steps = {total}"
    return [ConfigProblem(path="trainer.until_step", message=message, hint="null means all steps")]


_RULES: tuple[Callable[[Config], list[ConfigProblem]], ...] = (_clip, _kl, _model, _batches, _schedule, _until, _reward)
