"""Prompts: the built-in tasks, their split into training and held-out, and the order in which they come."""

from __future__ import annotations

from collections.abc import Callable

from trainer.data.arithmetic import Arithmetic
from trainer.data.digits import Digits
from trainer.data.order import PromptOrder
from trainer.data.split import Split, split
from trainer.data.task import Example, Task, demonstration, tokenizer_of
from trainer.data.tokenizer import CharTokenizer

TASKS: dict[str, Callable[..., Task]] = {"digits": Digits, "arithmetic": Arithmetic}

__all__ = [
    "TASKS",
    "Arithmetic",
    "CharTokenizer",
    "Digits",
    "Example",
    "PromptOrder",
    "Split",
    "Task",
    "demonstration",
    "split",
    "tokenizer_of",
]
