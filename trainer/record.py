"""The files that a run writes for others to read: `metrics.jsonl` and `result.json`. Imports no torch."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from trainer.failures import Failure

METRICS_FILE = "metrics.jsonl"
RESULT_FILE = "result.json"
SAMPLES_FILE = "samples.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """How a run ended.

    Attributes:
        status: finished | stopped | failed.
        last_step: The last training step done; 0 when there was none.
        peak_memory_gb: Largest memory of one rank (GiB).
        error: Why it failed, else None.
    """

    status: str
    last_step: int
    peak_memory_gb: float
    error: Failure | None = None


class MetricsFile:
    """Appends to `metrics.jsonl`; every line is flushed, so a reader and a crash see whole steps.

    Args:
        directory: The run's directory.
        enabled: False on the ranks that write nothing.
    """

    def __init__(self, directory: Path, *, enabled: bool) -> None:
        self._path = directory / METRICS_FILE if enabled else None
        if self._path is not None and _cut_short(self._path):
            # A kill in the middle of a line left it without an end: finish it, so that it spoils no other line.
            self._append("\n")

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """One training step (0: the evaluation before training); a value that is not finite is written as null."""
        nonfinite = sorted(name for name, value in metrics.items() if not math.isfinite(value))
        line: dict[str, object] = {"step": step, "time": time.time()}
        line["metrics"] = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
        if nonfinite:
            line["nonfinite"] = nonfinite
        self._write(line)

    def checkpoint(self, step: int, path: str, *, best_by: str | None = None) -> None:
        """A complete checkpoint, by its path within the run's directory.

        Args:
            step: The training step.
            path: Where it is.
            best_by: The metric by which it is the best so far; None when it is not.
        """
        line: dict[str, object] = {"step": step, "time": time.time(), "checkpoint": path}
        self._write(line if best_by is None else {**line, "best_by": best_by})

    def _write(self, line: Mapping[str, object]) -> None:
        self._append(json.dumps(line, allow_nan=False) + "\n")

    def _append(self, text: str) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as handle:
                handle.write(text)


def write_result(directory: Path, result: Result) -> None:
    """Write `result.json` atomically."""
    write_atomically(directory / RESULT_FILE, json.dumps(asdict(result), indent=2) + "\n")


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old or the new content, never a part."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
    temporary.replace(path)


def last_step(directory: Path) -> int:
    """The last training step in `metrics.jsonl`; 0 when there is none. Lines cut short by a crash are passed over."""
    path = directory / METRICS_FILE
    step = 0
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
        try:
            content = json.loads(line)
        except json.JSONDecodeError:
            continue
        if "metrics" in content:
            step = int(content["step"])
    return step


def _cut_short(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as handle:
        if handle.seek(0, os.SEEK_END) == 0:
            return False
        handle.seek(-1, os.SEEK_END)
        return handle.read(1) != b"\n"
