"""The order in which training prompts come, as a pure function of the step: resuming needs only the step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.data.task import Example


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptOrder:
    """Batches of prompts, epoch after epoch; the prompts that do not fill a batch at an epoch's end are left out.

    Attributes:
        examples: The training prompts.
        batch_size: Prompts per step over all ranks.
        shuffle: Draw a fresh order in every epoch.
        seed: Seed of these orders.
    """

    examples: Sequence[Example]
    batch_size: int
    shuffle: bool
    seed: int

    @property
    def steps_per_epoch(self) -> int:
        """Full batches in one pass."""
        return len(self.examples) // self.batch_size

    def batch(self, step: int) -> list[Example]:
        """The prompts of a training step.

        Args:
            step: 1-based.
        """
        epoch, place = divmod(step - 1, self.steps_per_epoch)
        order = list(range(len(self.examples)))
        if self.shuffle:
            random.Random(f"{self.seed}/{epoch}").shuffle(order)
        chosen = order[place * self.batch_size : (place + 1) * self.batch_size]
        return [self.examples[index] for index in chosen]
