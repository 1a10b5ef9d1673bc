"""What an adapter writes into the trial directory: ``metrics.jsonl`` and ``result.json``."""

from __future__ import annotations

import json
import math
import os
import resource
import time
from collections.abc import Mapping
from pathlib import Path


class Record:
    """Writes the files of one attempt.

    Args:
        directory: The trial directory.

    Attributes:
        first_step: The first step that was reported; ``None`` before.
        last_step: The last step that was reported; 0 before.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.first_step: int | None = None
        self.last_step = 0

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Appends one step; a value that is not finite is written as null and named."""
        finite = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
        line: dict[str, object] = {"step": step, "time": time.time(), "metrics": finite}
        if lost := [name for name, value in finite.items() if value is None]:
            line["nonfinite"] = sorted(lost)
        self._append(line)
        self.first_step = step if self.first_step is None else min(self.first_step, step)
        self.last_step = max(self.last_step, step)

    def checkpoint(self, step: int, path: str) -> None:
        """Announces a checkpoint that is complete on disk, by its path within the trial directory."""
        self._append({"step": step, "time": time.time(), "checkpoint": path})

    def finished(self) -> int:
        """The program has done all its steps; returns the exit code."""
        return self._result({"status": "finished"}, 0)

    def stopped(self) -> int:
        """The program ended because it was told to; returns the exit code."""
        return self._result({"status": "stopped"}, 10)

    def failed(self, kind: str, message: str, hint: str) -> int:
        """The program failed for a reason that is known here; returns the exit code."""
        return self._result({"status": "failed", "error": {"kind": kind, "message": message, "hint": hint}}, 1)

    def _append(self, line: Mapping[str, object]) -> None:
        with (self._directory / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")

    def _result(self, how: Mapping[str, object], code: int) -> int:
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / (1 << 20)
        result = {**how, "last_step": self.last_step, "peak_memory_gb": round(peak, 4)}
        temporary = self._directory / f".result.json.{os.getpid()}"
        with temporary.open("w", encoding="utf-8") as file:
            file.write(json.dumps(result))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._directory / "result.json")
        return code
