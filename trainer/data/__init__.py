"""Prompts: built-in tasks and files, their split into training and held-out, and the order in which they come."""

from __future__ import annotations

from trainer.data.arithmetic import Arithmetic
from trainer.data.digits import Digits
from trainer.data.hf_tokenizer import HfTokenizer
from trainer.data.order import PromptOrder
from trainer.data.prompts import TASKS, load_prompts, task_of
from trainer.data.rows import Row, read_rows
from trainer.data.split import Split, split
from trainer.data.task import Example, Task, demonstration, tokenizer_of
from trainer.data.tokenizer import CharTokenizer, Tokenizer

__all__ = [
    "TASKS",
    "Arithmetic",
    "CharTokenizer",
    "Digits",
    "Example",
    "HfTokenizer",
    "PromptOrder",
    "Row",
    "Split",
    "Task",
    "Tokenizer",
    "demonstration",
    "load_prompts",
    "read_rows",
    "split",
    "task_of",
    "tokenizer_of",
]
