"""How a run can fail, and which kind of failure a raised error means. Imports no torch."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from trainer.config import ConfigError

KINDS = ("out_of_memory", "non_finite", "config", "data", "port_in_use", "weight_sync", "node", "unknown")


class TrainerError(Exception):
    """A failure that the trainer recognised.

    Attributes:
        kind: One of `KINDS`.
        hint: What to do about it; may be empty.
    """

    kind = "unknown"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class NonFiniteError(TrainerError):
    """A reward, loss, gradient or logit is not finite and training cannot recover."""

    kind = "non_finite"


class DataError(TrainerError):
    """A prompt, an answer or a reward function's result cannot be used."""

    kind = "data"


class WeightSyncError(TrainerError):
    """The rollout engine does not hold the actor's weights."""

    kind = "weight_sync"


class EngineError(TrainerError):
    """A rollout engine outside this process is lost, or answers what cannot be used."""

    kind = "node"


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """What `result.json` says about a failed run.

    Attributes:
        kind: One of `KINDS`.
        message: What happened.
        hint: What to do about it; may be empty.
    """

    kind: str
    message: str
    hint: str


def classify(error: BaseException) -> Failure:
    """The failure that an error means, judged by its type first and its text only where libraries offer no type."""
    message = str(error) or type(error).__name__
    if isinstance(error, ConfigError):
        hints = [problem.hint for problem in error.problems if problem.hint]
        return Failure(kind="config", message=message, hint=hints[0] if hints else "")
    if isinstance(error, TrainerError):
        return Failure(kind=error.kind, message=message, hint=error.hint)
    message = f"{type(error).__name__}: {message}"
    text = message.lower()
    if isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text:
        return Failure(
            kind="out_of_memory",
            message=message,
            hint="lower trainer.ppo_micro_batch_size_per_gpu or rollout.max_batch_size, or use more memory",
        )
    if getattr(error, "errno", None) == errno.EADDRINUSE or "eaddrinuse" in text or "address already in use" in text:
        return Failure(
            kind="port_in_use", message=message, hint="set system.distributed.master_port to a free port, or to null"
        )
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES):
        return Failure(
            kind="node", message=message, hint="the disk refuses to be written: free space or check its rights"
        )
    if "distbackenderror" in text or "connection closed by peer" in text or "connection reset by peer" in text:
        return Failure(kind="node", message=message, hint="another rank was lost; its own log says why")
    return Failure(kind="unknown", message=message, hint="the traceback is on stderr")
