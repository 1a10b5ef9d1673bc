"""The prompts of a run: from a built-in task, or from files."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from trainer.config import Config, ConfigError, ConfigProblem
from trainer.console import say
from trainer.data.arithmetic import Arithmetic
from trainer.data.digits import Digits
from trainer.data.rows import Row, read_rows
from trainer.data.split import Split, split
from trainer.data.task import Example, Task
from trainer.data.tokenizer import Tokenizer
from trainer.failures import DataError

TASKS: dict[str, type[Digits] | type[Arithmetic]] = {"digits": Digits, "arithmetic": Arithmetic}


def task_of(config: Config) -> Task | None:
    """The built-in task of a configuration; None when its prompts come from files."""
    kind = TASKS.get(config.data.name)
    return None if kind is None else kind(width=cast(int, config.data.width))


def load_prompts(config: Config, tokenizer: Tokenizer, *, announce: bool) -> Split:
    """Training and held-out prompts.

    Args:
        config: The configuration.
        tokenizer: Measures the prompts, and knows the chat template.
        announce: Say on stderr how many prompts were left out because they are too long.

    Raises:
        ConfigError: A file is missing, or too few prompts are left for a batch.
        DataError: A row is malformed; the message names file and line.
    """
    task = task_of(config)
    prompts = _from_files(config, tokenizer, announce) if task is None else split(task, config.data, tokenizer)
    batch = config.trainer.train_batch_size
    if len(prompts.train) < batch:
        message = f"got {batch}, but only {len(prompts.train)} training prompts are left"
        raise ConfigError([ConfigProblem(path="trainer.train_batch_size", message=message, hint="lower it")])
    return prompts


def _from_files(config: Config, tokenizer: Tokenizer, announce: bool) -> Split:
    data = config.data
    needs_answers = config.reward.name is not None
    rows = read_rows(Path(cast(str, data.train_file)), data.name, "data.train_file")
    train = _short_enough(_examples(rows, tokenizer, needs_answers), config, tokenizer, "training", announce)
    if data.eval_file is not None:
        rows = read_rows(Path(data.eval_file), data.name, "data.eval_file")
        held_out = _short_enough(_examples(rows, tokenizer, needs_answers), config, tokenizer, "held-out", announce)
        held_out = held_out[: data.eval_size]
    else:
        drawn = set(random.Random(data.seed).sample(range(len(train)), min(cast(int, data.eval_size), len(train))))
        held_out = [example for place, example in enumerate(train) if place in drawn]
        train = [example for place, example in enumerate(train) if place not in drawn]
    if not held_out:
        message = f"got {data.max_prompt_length}, and no held-out prompt is that short"
        raise ConfigError([ConfigProblem(path="data.max_prompt_length", message=message, hint="raise it")])
    return Split(train=tuple(train[: data.train_size]), held_out=tuple(held_out))


def _examples(rows: Sequence[Row], tokenizer: Tokenizer, needs_answers: bool) -> list[Example]:
    examples = []
    for row in rows:
        if needs_answers and row.ground_truth is None:
            raise DataError(
                f"{row.place}: has no ground truth, which the built-in rewards compare with",
                hint="add reward_model.ground_truth or ground_truth, or use reward.function",
            )
        try:
            plain = isinstance(row.prompt, str)
            prompt = tokenizer.opening(row.prompt) if plain else tokenizer.conversation(row.prompt)
        except ValueError as error:
            raise DataError(f"{row.place}: {error}", hint="give plain text as prompt, or use a chat model") from error
        examples.append(
            Example(
                index=row.index,
                prompt=prompt,
                ground_truth=row.ground_truth or "",
                data_source=row.data_source,
                extra_info=row.extra_info,
            )
        )
    return examples


def _short_enough(
    examples: Sequence[Example], config: Config, tokenizer: Tokenizer, what: str, announce: bool
) -> list[Example]:
    longest = config.data.max_prompt_length
    kept = [example for example in examples if len(tokenizer.encode(example.prompt)) <= longest]
    if announce and len(kept) < len(examples):
        say(f"left out {len(examples) - len(kept)} of {len(examples)} {what} prompts: longer than {longest} tokens")
    return kept
