"""The prompts of a run, with answers where it learns from such: from a built-in task, or from files."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from trainer.config import Config, ConfigError, ConfigProblem
from trainer.console import say
from trainer.data.arithmetic import Arithmetic
from trainer.data.digits import Digits
from trainer.data.preference_rows import read_labels, read_pairs
from trainer.data.preferences import OF_TASKS, LabelExample, PairExample, usable
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
    if task is None:
        prompts = _from_files(config, tokenizer, announce)
    else:
        prompts = _from_task(task, config, tokenizer, announce)
    batch = config.trainer.train_batch_size
    if len(prompts.train) < batch:
        message = f"got {batch}, but only {len(prompts.train)} training prompts are left"
        raise ConfigError([ConfigProblem(path="trainer.train_batch_size", message=message, hint="lower it")])
    return prompts


def _from_task(task: Task, config: Config, tokenizer: Tokenizer, announce: bool) -> Split:
    data = config.data
    prompts = split(task, data, tokenizer)
    if data.kind not in OF_TASKS:
        return prompts
    parts = {"training": prompts.train, "held-out": prompts.held_out}
    kept = [
        usable([OF_TASKS[data.kind](example, data.seed) for example in part], data, tokenizer, what, announce=announce)
        for what, part in parts.items()
    ]
    if not all(kept):
        message = f"got {data.max_response_length}, and no answer is that short"
        raise ConfigError([ConfigProblem(path="data.max_response_length", message=message, hint="raise it")])
    return Split(train=tuple(kept[0]), held_out=tuple(kept[1]))


def _from_files(config: Config, tokenizer: Tokenizer, announce: bool) -> Split:
    data = config.data
    read = _READERS[data.kind]

    def examples(file: str, key: str, what: str) -> list[Example]:
        found = read(Path(file), config, key, tokenizer)
        return _short_enough(found, config, tokenizer, what, announce)

    train = examples(cast(str, data.train_file), "data.train_file", "training")
    if data.eval_file is not None:
        held_out = examples(data.eval_file, "data.eval_file", "held-out")[: data.eval_size]
    else:
        drawn = set(random.Random(data.seed).sample(range(len(train)), min(cast(int, data.eval_size), len(train))))
        held_out = [example for place, example in enumerate(train) if place in drawn]
        train = [example for place, example in enumerate(train) if place not in drawn]
    if not held_out:
        message = f"got {data.max_prompt_length}, and no held-out prompt is that short"
        hint = "raise it" if data.kind == "prompts" else "raise it, or data.max_response_length for the answers"
        raise ConfigError([ConfigProblem(path="data.max_prompt_length", message=message, hint=hint)])
    return Split(train=tuple(train[: data.train_size]), held_out=tuple(held_out))


def _prompts(path: Path, config: Config, key: str, tokenizer: Tokenizer) -> list[Example]:
    return [Example(**_prompt(row, config, tokenizer)) for row in read_rows(path, config.data.name, key)]


def _pairs(path: Path, config: Config, key: str, tokenizer: Tokenizer) -> list[Example]:
    return [
        PairExample(**_prompt(pair.row, config, tokenizer), chosen=pair.chosen, rejected=pair.rejected)
        for pair in read_pairs(path, config.data.name, key)
    ]


def _labels(path: Path, config: Config, key: str, tokenizer: Tokenizer) -> list[Example]:
    return [
        LabelExample(**_prompt(row.row, config, tokenizer), completion=row.completion, label=row.label)
        for row in read_labels(path, config.data.name, key)
    ]


_READERS: Mapping[str, Callable[[Path, Config, str, Tokenizer], list[Example]]] = {
    "prompts": _prompts,
    "pairs": _pairs,
    "labels": _labels,
}


def _prompt(row: Row, config: Config, tokenizer: Tokenizer) -> dict[str, object]:
    """The attributes of an `Example`."""
    if row.ground_truth is None and {config.reward.name, config.reward.eval_name} != {None}:
        hint = "add reward_model.ground_truth or ground_truth, or use reward.function"
        if config.algorithm.learns_from_preferences:
            hint += ", or choose the option reward=none: then answers are not sampled and scored"
        raise DataError(f"{row.place}: has no ground truth, which the built-in rewards compare with", hint=hint)
    try:
        plain = isinstance(row.prompt, str)
        prompt = tokenizer.opening(row.prompt) if plain else tokenizer.conversation(row.prompt)
    except ValueError as error:
        raise DataError(f"{row.place}: {error}", hint="give plain text as prompt, or use a chat model") from error
    return {
        "index": row.index,
        "prompt": prompt,
        "ground_truth": row.ground_truth or "",
        "data_source": row.data_source,
        "extra_info": row.extra_info,
    }


def _short_enough(
    examples: Sequence[Example], config: Config, tokenizer: Tokenizer, what: str, announce: bool
) -> list[Example]:
    longest = config.data.max_prompt_length
    kept = [example for example in examples if len(tokenizer.encode(example.prompt)) <= longest]
    if announce and len(kept) < len(examples):
        say(f"left out {len(examples) - len(kept)} of {len(examples)} {what} prompts: longer than {longest} tokens")
    return kept if config.data.kind == "prompts" else usable(kept, config.data, tokenizer, what, announce=announce)
