"""Training and held-out prompts of a built-in task: disjoint, drawn by a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import cast

from trainer.config import ConfigError, ConfigProblem, DataConfig
from trainer.data.task import Example, Task
from trainer.data.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """The two sets of prompts.

    Attributes:
        train: Prompts that PPO and the warm start see.
        held_out: Prompts that only the evaluation sees.
    """

    train: tuple[Example, ...]
    held_out: tuple[Example, ...]


def split(task: Task, config: DataConfig, tokenizer: Tokenizer) -> Split:
    """Draw the prompts.

    Raises:
        ConfigError: The task has too few different prompts, or one is longer than `data.max_prompt_length`.
    """
    train_size, eval_size = cast(int, config.train_size), cast(int, config.eval_size)
    wanted = train_size + eval_size
    if wanted > task.size():
        message = (
            f"train_size {train_size} + eval_size {eval_size} = {wanted}, but '{config.name}' with "
            f"width {config.width} has only {task.size()} different prompts"
        )
        raise ConfigError([ConfigProblem(path="data.train_size", message=message, hint="lower it or raise data.width")])
    drawn = [task.example(index) for index in random.Random(config.seed).sample(range(task.size()), wanted)]
    longest = max((len(tokenizer.encode(example.prompt)), example.prompt) for example in drawn)
    if longest[0] > config.max_prompt_length:
        message = f"got {config.max_prompt_length}, but the prompt {longest[1]!r} has {longest[0]} tokens"
        hint = f"set it to {longest[0]} or lower data.width"
        raise ConfigError([ConfigProblem(path="data.max_prompt_length", message=message, hint=hint)])
    return Split(train=tuple(drawn[eval_size:]), held_out=tuple(drawn[:eval_size]))
