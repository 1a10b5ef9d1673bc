"""How long an attempt was still at work after the last that was heard of it, when its driver had died."""

from __future__ import annotations

from pathlib import Path

from autotune.execution.metrics_tail import METRICS_NAME
from autotune.execution.outcome import RESULT_NAME

_PREPARED = "config.yaml"


def unpaid_s(directory: Path, heard_at: float) -> float:
    """Seconds between the last that was heard of a trial and its last sign of life in its directory.

    Args:
        directory: The trial directory.
        heard_at: When its last step was heard of, epoch seconds; of an earlier attempt it does not count.
    """
    # Every attempt writes its configuration anew just before its process starts.
    prepared = _modified(directory / _PREPARED)
    if prepared is None:
        return 0.0
    signs = [directory / METRICS_NAME, directory / RESULT_NAME, *directory.glob("attempt_*.log")]
    last = max((at for at in map(_modified, signs) if at is not None), default=0.0)
    return max(0.0, last - max(heard_at, prepared))


def _modified(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
