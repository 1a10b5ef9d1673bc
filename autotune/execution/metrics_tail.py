"""Reads what a trial's process appends to its ``metrics.jsonl``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

METRICS_NAME = "metrics.jsonl"
_MAX_READ = 4 << 20
_MAX_LINE = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class StepLine:
    """One step: its number and its metrics, ``None`` for those that were not finite."""

    step: int
    metrics: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointLine:
    """A checkpoint that is complete on disk; ``path`` relative to the trial directory."""

    step: int
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Complaint:
    """Something in the file that is not of the agreed form; reported, not fatal."""

    text: str


Line: TypeAlias = StepLine | CheckpointLine | Complaint


class MetricsTail:
    """Follows the file from its present end on.

    A last line that an earlier attempt left incomplete is closed with a line break, so that it cannot swallow the
    first line of this one.

    Args:
        directory: The trial directory.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / METRICS_NAME
        self._partial = b""
        self._offset = _close_last_line(self._path)

    def read(self, *, ended: bool = False) -> tuple[Line, ...]:
        """What was appended since the last call, in the order of the file.

        An incomplete last line is kept until it is complete.

        Args:
            ended: No process writes any more: what is left counts as a line.
        """
        lines: list[Line] = []
        chunks = [self._partial]
        while chunk := self._more(lines):
            chunks.append(chunk)
            if len(chunk) < _MAX_READ:
                break
        *complete, self._partial = b"".join(chunks).split(b"\n")
        if ended or len(self._partial) > _MAX_LINE:
            complete.append(self._partial)
            self._partial = b""
        for raw in complete:
            if raw.strip():
                lines += parse_line(raw)
        return tuple(lines)

    def _more(self, lines: list[Line]) -> bytes:
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, 2)
                if size < self._offset:
                    shrunk = (
                        f"{METRICS_NAME} shrank from {self._offset} to {size} bytes; reading goes on at its new end"
                    )
                    lines.append(Complaint(text=shrunk))
                    self._offset, self._partial = size, b""
                file.seek(self._offset)
                chunk = file.read(_MAX_READ)
        except FileNotFoundError:
            return b""
        self._offset += len(chunk)
        return chunk


def parse_line(raw: bytes) -> tuple[Line, ...]:
    """Reads one line: ``{"step": 12, "metrics": {…}, "nonfinite": […], "checkpoint": "checkpoints/step_12"}``.

    ``metrics`` and ``checkpoint`` may come together or alone. Whatever is wrong with a line becomes a ``Complaint``
    and the rest of the line is still used.
    """
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        return (Complaint(text=f"not a JSON line: {_short(raw)}"),)
    if not isinstance(data, dict):
        return (Complaint(text=f"not a JSON object: {_short(raw)}"),)
    lines: list[Line] = []
    step = data.get("step")
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        return (Complaint(text=f"'step' must be a whole number >= 0, got {step!r}: {_short(raw)}"),)
    if "metrics" in data:
        lines += _step_lines(step, data["metrics"], data.get("nonfinite"))
    if data.get("checkpoint") is not None:
        lines.append(_checkpoint_line(step, data["checkpoint"]))
    if not lines:
        lines.append(Complaint(text=f"neither 'metrics' nor 'checkpoint': {_short(raw)}"))
    return tuple(lines)


def _step_lines(step: int, metrics: object, nonfinite: object) -> list[Line]:
    if not isinstance(metrics, dict):
        return [Complaint(text=f"step {step}: 'metrics' must be an object, got {type(metrics).__name__}")]
    lines: list[Line] = []
    values: dict[str, float | None] = {}
    for name, value in metrics.items():
        if value is None:
            values[name] = None
        elif isinstance(value, bool) or not isinstance(value, int | float):
            lines.append(Complaint(text=f"step {step}: metric {name!r} must be a number or null, got {value!r:.60}"))
        else:
            values[name] = _finite(value)
    if isinstance(nonfinite, list):
        values.update({name: None for name in nonfinite if isinstance(name, str)})
    return [*lines, StepLine(step=step, metrics=values)]


def _finite(value: float) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _checkpoint_line(step: int, checkpoint: object) -> Line:
    if isinstance(checkpoint, dict):
        inner = checkpoint.get("step", step)
        step = inner if isinstance(inner, int) else step
        checkpoint = checkpoint.get("path")
    if not isinstance(checkpoint, str) or not checkpoint:
        return Complaint(text=f"step {step}: 'checkpoint' must be a path, got {checkpoint!r:.60}")
    return CheckpointLine(step=step, path=checkpoint)


def _short(raw: bytes) -> str:
    text = raw[:120].decode("utf-8", "replace")
    return f"{text!r}…" if len(raw) > 120 else repr(text)


def _close_last_line(path: Path) -> int:
    """Ends the file with a line break if it has content and lacks one; the file's size after that."""
    try:
        with path.open("rb+") as file:
            size = file.seek(0, 2)
            if size == 0:
                return 0
            file.seek(size - 1)
            if file.read(1) == b"\n":
                return size
            file.write(b"\n")
            return size + 1
    except FileNotFoundError:
        return 0
