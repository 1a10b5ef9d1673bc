"""What the base and the best model answer to the same held-out prompts, from the ``samples.jsonl`` of their trials.

The file is written by the trial, which may be a program of anybody's: whatever is not as expected is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.views import BestView, TrialView

SAMPLES_FILE = "samples.jsonl"
_LARGEST = 16 * 1024 * 1024
_SHOWN = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One answer; ``reward`` is ``None`` when there was no finite one."""

    text: str
    reward: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A held-out prompt with the answers of both models.

    Attributes:
        base: What the model said before training; ``None`` when nobody wrote it down.
        best: What it said at the step ``step`` of the best trial.
    """

    prompt: str
    ground_truth: str
    base: Answer | None
    best: Answer
    step: int


def samples_of(best: BestView | None, trials: Sequence[TrialView]) -> list[Sample]:
    """The answers side by side, a few; empty when the best trial left none.

    A trial that goes on from the checkpoint of another one has no step 0 of its own: the base model's answers are then
    those that another trial wrote down.
    """
    if best is None or not best.trial.directory:
        return []
    rows = list(_rows(best.trial.directory))
    last = max((step for step, _, _, _ in rows), default=0)
    if last == 0:
        return []
    base = _base(rows)
    for trial in trials:
        if base:
            break
        base = _base(_rows(trial.directory)) if trial.directory else {}
    return [
        Sample(prompt=prompt, ground_truth=truth, base=base.get(prompt), best=answer, step=step)
        for step, prompt, truth, answer in rows
        if step == last
    ][:_SHOWN]


_Row = tuple[int, str, str, Answer]


def _base(rows: Sequence[_Row] | Iterator[_Row]) -> dict[str, Answer]:
    return {prompt: answer for step, prompt, _, answer in rows if step == 0}


def _rows(directory: str) -> Iterator[_Row]:
    path = Path(directory) / SAMPLES_FILE
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            row = json.loads(line)
            reward = row.get("reward")
            answer = Answer(text=str(row["response"]), reward=None if reward is None else float(reward))
            yield int(row["step"]), str(row["prompt"]), str(row.get("ground_truth", "")), answer
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
