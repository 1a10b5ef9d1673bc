"""Training and held-out prompts of a task: disjoint, drawn by a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from trainer.config import ConfigError, ConfigProblem, DataConfig
from trainer.data.task import Example, Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """The two sets of prompts.

    Attributes:
        train: Prompts that PPO and the warm start see.
        held_out: Prompts that only the evaluation sees.
    """

    train: tuple[Example, ...]
    held_out: tuple[Example, ...]


def split(task: Task, config: DataConfig) -> Split:
    """Draw the prompts.

    Raises:
        ConfigError: The task has too few different prompts, or one is longer than `data.max_prompt_length`.
    """
    wanted = config.train_size + config.eval_size
    if wanted > task.size():
        message = (
            f"train_size {config.train_size} + eval_size {config.eval_size} = {wanted}, but '{config.name}' with "
            f"width {config.width} has only {task.size()} different prompts"
        )
        raise ConfigError([ConfigProblem(path="data.train_size", message=message, hint="lower it or raise data.width")])
    drawn = [task.example(index) for index in random.Random(config.seed).sample(range(task.size()), wanted)]
    longest = max(drawn, key=lambda example: len(example.prompt))
    if len(longest.prompt) > config.max_prompt_length:
        message = f"got {config.max_prompt_length}, but the prompt {longest.prompt!r} has {len(longest.prompt)} tokens"
        hint = f"set it to {len(longest.prompt)} or lower data.width"
        raise ConfigError([ConfigProblem(path="data.max_prompt_length", message=message, hint=hint)])
    return Split(train=tuple(drawn[config.eval_size :]), held_out=tuple(drawn[: config.eval_size]))
