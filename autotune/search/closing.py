"""Why a study starts nothing more, in one word and in a sentence."""

from __future__ import annotations

from enum import StrEnum

from autotune.search.types import Reason


class Closing(StrEnum):
    """Why a study starts nothing more and, unless it was stopped or drained, ends what runs."""

    CANCELLED = "cancelled"
    STOPPED = "stopped"
    """What runs may finish."""
    DRAINED = "drained"
    """What runs may finish; the rest waits for another driver."""
    INTERRUPTED = "interrupted"
    """The driver must go; the trials continue from their checkpoints under another one."""
    WALL_CLOCK = "wall clock"
    GPU_HOURS = "gpu hours"
    NO_OBJECTIVE = "no objective"
    """Whole trials never reported what is to be optimised."""
    NOT_FINITE = "not finite"
    """What is to be optimised was never a finite number."""


GENTLE: frozenset[Closing | None] = frozenset({None, Closing.STOPPED, Closing.DRAINED})
"""What leaves running trials alone."""
HANDED_ON: frozenset[Closing | None] = frozenset({Closing.INTERRUPTED, Closing.DRAINED})
"""What leaves the study to another driver."""


def closing_reason(closing: Closing | None, spent: str) -> Reason:
    """The reason that a trial is ended for.

    Args:
        closing: Why the study closes; ``None`` for a trial that has its verdict already.
        spent: What was spent of the GPU-hours, in words.
    """
    words = {
        Closing.CANCELLED: "the job was cancelled",
        Closing.STOPPED: "the job was stopped",
        Closing.DRAINED: "the driver was told to go",
        Closing.INTERRUPTED: "the driver was told to go; the trial continues later",
        Closing.WALL_CLOCK: "the wall-clock budget is spent",
        Closing.GPU_HOURS: spent,
        Closing.NO_OBJECTIVE: "no trial has ever reported the objective",
        Closing.NOT_FINITE: "the objective of no trial has ever been a finite number",
        None: "the trial has its verdict",
    }
    return Reason(pruner="job", text=words[closing])
