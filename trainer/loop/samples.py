"""`samples.jsonl`: what the actor answers to a few held-out prompts, before training and at the last evaluation."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from trainer.data import Example
from trainer.record import SAMPLES_FILE, write_atomically

_LONGEST = 4000


class SampleFile:
    """Keeps the answers of step 0 and those of the newest evaluation, one JSON object a line.

    Args:
        directory: The run's directory; what an attempt before wrote of step 0 there stays.
        count: Held-out prompts whose answers are kept; 0 = no file.
        enabled: False on the ranks that write nothing.
    """

    def __init__(self, directory: Path, *, count: int, enabled: bool) -> None:
        self._path = directory / SAMPLES_FILE
        self.count = count if enabled else 0
        self._first = _of_step_0(self._path) if self.count else []

    def keep(self, step: int, examples: Sequence[Example], texts: Sequence[str], rewards: Sequence[float]) -> None:
        """The answers of an evaluation; they replace those of the one before.

        Args:
            step: Training steps done.
            examples: The first held-out prompts of this rank.
            texts: The answer to each.
            rewards: What the evaluation's reward says of each.
        """
        if not self.count:
            return
        lines = [
            json.dumps(
                {
                    "step": step,
                    "prompt": example.prompt[-_LONGEST:],
                    "ground_truth": example.ground_truth[:_LONGEST],
                    "response": text[:_LONGEST],
                    "reward": reward if math.isfinite(reward) else None,
                }
            )
            for example, text, reward in zip(examples, texts, rewards, strict=True)
        ]
        if step == 0:
            self._first = lines
        write_atomically(
            self._path, "".join(f"{line}\n" for line in (self._first if step == 0 else self._first + lines))
        )


def _of_step_0(path: Path) -> list[str]:
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if line.startswith('{"step": 0,')]
