"""What a person says when asked: model, data, reward, GPUs, goal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.errors import UsageError
from autotune.spec.nearest import did_you_mean

TINY = "tiny"
PACKED = ("tiny", "smollm2")
"""Models that come by a name of their own."""
BUILT_IN_DATA = ("digits", "arithmetic")
FORMATS: Mapping[str, str] = {".jsonl": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
GOALS: Mapping[str, str] = {
    "effect": "the best reward at a KL that stays in bounds",
    "stability": "what runs to its end in the least memory",
    "throughput": "the most tokens per second",
    "all": "the three of them one after the other: stability, throughput, effect",
}
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Wishes:
    """The answers of a person.

    Attributes:
        name: Name of the space.
        model: ``tiny``, ``smollm2``, a directory in Hugging Face format, or a name on the Hub.
        data: ``digits``, ``arithmetic``, or the absolute path of a file of prompts (JSONL or Parquet).
        eval_data: A file of held-out prompts; empty = a part of ``data`` is held out.
        reward: A built-in reward, or one's own as ``module:function``; empty = what fits the data.
        gpus: GPUs that the job may use, one for each trial at a time; 0 = none.
        goal: One of ``GOALS``.
        trials: Trials to try; 0 = what is usual for the goal.
        steps: Training steps of a trial; 0 = what is usual for the goal.
    """

    name: str
    model: str = TINY
    data: str = BUILT_IN_DATA[0]
    eval_data: str = ""
    reward: str = ""
    gpus: int = 0
    goal: str = "effect"
    trials: int = 0
    steps: int = 0

    def __post_init__(self) -> None:
        """Refuses what does not go together.

        Raises:
            UsageError: With the value got, what is allowed, and the fix.
        """
        if self.goal not in GOALS:
            near = did_you_mean(self.goal, GOALS)
            raise UsageError(f"unknown goal {self.goal!r}; known are {', '.join(GOALS)}.", hint=near)
        if not self.model.strip():
            raise UsageError("the model is empty.", hint="Name tiny, smollm2, a directory, or a model on the Hub.")
        _check_data(self.data, self.model)
        if self.eval_data:
            _check_eval(self.data, self.eval_data)
        if ":" in self.reward and not _FUNCTION.fullmatch(self.reward):
            raise UsageError(
                f"a reward of your own looks like module:function, got {self.reward!r}.",
                hint="For score() in my_rewards.py, with its directory on PYTHONPATH: --reward my_rewards:score",
            )

    @property
    def tiny(self) -> bool:
        """Whether the built-in model is trained, which wants other ranges than a large one."""
        return self.model == TINY

    @property
    def from_files(self) -> bool:
        """Whether the prompts come from a file."""
        return self.data not in BUILT_IN_DATA

    @property
    def parallel(self) -> int:
        """Trials that run at a time."""
        return self.gpus or 2


def format_of(path: str) -> str:
    """The data option that reads a file, by its ending; empty where there is none."""
    return next((option for ending, option in FORMATS.items() if path.lower().endswith(ending)), "")


def slug(text: str) -> str:
    """A name that a space may have, made from any text; may be empty."""
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:63].strip("-_")


def _check_data(data: str, model: str) -> None:
    if data in BUILT_IN_DATA:
        return
    if not format_of(data):
        near = did_you_mean(data, BUILT_IN_DATA)
        raise UsageError(
            f"unknown data {data!r}; known are {', '.join(BUILT_IN_DATA)}, and files ending in {', '.join(FORMATS)}.",
            hint=f"{near} One JSON object a line, with prompt and ground_truth, would do.".strip(),
        )
    if model == TINY:
        raise UsageError(
            f"the built-in model knows digits only and cannot read {data!r}.",
            hint="Name a model with --model, for example --model smollm2 or --model /models/my-model",
        )


def _check_eval(data: str, eval_data: str) -> None:
    if data in BUILT_IN_DATA:
        raise UsageError(f"the built-in task {data!r} makes its own held-out prompts.", hint="Leave out --eval-data.")
    if format_of(eval_data) != format_of(data):
        raise UsageError(
            f"held-out prompts are of the same kind as the others: {data!r} against {eval_data!r}.",
            hint="Give two JSONL files or two Parquet files.",
        )
