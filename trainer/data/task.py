"""What a built-in task offers: prompts with their answers, and demonstrations for the warm start."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from trainer.data.tokenizer import CharTokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A prompt and the response expected.

    Attributes:
        index: Identifies the prompt within its task; seeds its samples.
        prompt: Text given to the model.
        ground_truth: Text expected from it, without the end token.
        data_source: Where the prompt comes from; empty when nobody said.
        extra_info: What else a row of a file knows, for one's own reward function.
    """

    index: int
    prompt: str
    ground_truth: str
    data_source: str = ""
    extra_info: Mapping[str, object] = field(default_factory=dict)


class Task(Protocol):
    """A built-in task: a finite, numbered set of examples."""

    @property
    def alphabet(self) -> str:
        """Every character that a prompt or a response may hold."""

    def size(self) -> int:
        """How many different examples there are."""

    def example(self, index: int) -> Example:
        """The example with this number, `0 <= index < size()`."""


def demonstration(example: Example, slip_fraction: float, rng: random.Random) -> str:
    """A response to learn from, with slips: here and there a digit is one too low.

    One in five combinations of a digit and its place is slippery, each to its own degree: between 0.6 and 1.4 times
    `slip_fraction`, at most 0.95. A model trained on such demonstrations has habits of different strength, which a
    policy can unlearn one after the other.
    """
    return "".join(
        str((int(char) - 1) % 10)
        if char.isdigit() and rng.random() < _slip_chance(int(char), place, slip_fraction)
        else char
        for place, char in enumerate(example.ground_truth)
    )


def _slip_chance(digit: int, place: int, slip_fraction: float) -> float:
    if (3 * digit + 2 * place) % 5:
        return 0.0
    return min(0.95, slip_fraction * (0.6 + 0.8 * ((digit + 4 * place) % 7) / 6))


def tokenizer_of(task: Task) -> CharTokenizer:
    """The tokenizer of a task's alphabet."""
    return CharTokenizer(alphabet=task.alphabet)
