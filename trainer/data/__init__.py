"""Prompts, and answers to learn from: tasks and files, what is held out, and the order in which they come."""

from __future__ import annotations

from trainer.data.arithmetic import Arithmetic
from trainer.data.digits import Digits
from trainer.data.hf_tokenizer import HfTokenizer
from trainer.data.order import PromptOrder
from trainer.data.preferences import LabelExample, PairExample, answer_tokens, answers_of, unpaired
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
    "LabelExample",
    "PairExample",
    "PromptOrder",
    "Row",
    "Split",
    "Task",
    "Tokenizer",
    "answer_tokens",
    "answers_of",
    "demonstration",
    "load_prompts",
    "read_rows",
    "split",
    "task_of",
    "tokenizer_of",
    "unpaired",
]
