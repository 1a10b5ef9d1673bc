"""Runs verl's PPO trainer in isolation and reads its metrics, its warnings and its checkpoints."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.backends.adapter.child import Child, end_like, say
from autotune.backends.adapter.command import OUTPUT_DIR, hung
from autotune.backends.adapter.follow import Follow
from autotune.backends.adapter.numbers import number, whole
from autotune.backends.adapter.record import Record
from autotune.backends.adapter.verl_checkpoints import Checkpoints
from autotune.backends.verl.metrics import console_step, translate

LAUNCHER = Path(__file__).with_name("verl_launcher.py")
_NOT_FINITE = "grad_norm is not finite"


def run_verl(config: Mapping[str, Any], directory: Path) -> int:
    """Runs one attempt; returns the adapter's exit code.

    Args:
        config: The trial's configuration as a tree.
        directory: The trial directory.
    """
    own, record = config["backend"], Record(directory)
    output = directory / OUTPUT_DIR
    output.mkdir(exist_ok=True)
    for note in own["notes"]:
        say(note)
    visible = dict(own["env"]).get("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
    if message := _too_few_gpus(visible, int(config["trainer"]["n_gpus_per_node"])):
        return record.failed("config", message, "Set trainer.n_gpus_per_node and resources.gpus to the same number.")
    # The file logger empties its file when it starts, so each attempt has one of its own.
    attempt = 1 + sum(1 for _ in output.glob("metrics_*.jsonl"))
    log = output / f"metrics_{attempt}.jsonl"
    checkpoints = Checkpoints(directory, record)
    metrics = _Metrics(log, record)
    temporary = tempfile.mkdtemp(prefix="verl-", dir="/tmp")  # short: Ray's sockets lie below it

    def look() -> None:
        # Both, and the steps first: the last look may find the last step and its checkpoint together.
        if any([metrics.look(), checkpoints.look()]):
            child.touch()

    env = {**environment(dict(os.environ), temporary, log), **dict(own["env"])}
    workdir = Path(own["workdir"] or directory)
    child = Child(launched(own["command"]), env, workdir, on_line=metrics.on_line, on_look=look, stall_s=own["stall_s"])
    try:
        code = child.run()
    except OSError as error:
        return record.failed("unknown", f"cannot start {own['command'][0]!r}: {error.strerror or error}", "")
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    metrics.look(ended=True)
    if child.stopping:
        return record.stopped()
    if child.hung:
        return hung(record, own["stall_s"])
    return end_like(code) if code != 0 else _ended_well(record, checkpoints.start, int(own["steps"]))


def launched(command: Sequence[str]) -> list[str]:
    """The command by way of the launcher, which gives the run's Ray a job id, and so its sockets names, of its own."""
    python, option, module, *arguments = command
    return [python, str(LAUNCHER), module, *arguments] if option == "-m" else list(command)


def environment(outer: Mapping[str, str], temporary: str, log: Path) -> dict[str, str]:
    """The environment of a verl of its own: nothing of the Ray around it, its own temporary directory and log.

    Args:
        outer: The environment of the trial.
        temporary: A short directory for Ray's sockets.
        log: Where the file logger writes.
    """
    kept = {name: value for name, value in outer.items() if not name.startswith("RAY_")}
    return {
        **kept,
        "RAY_ADDRESS": "local",
        "RAY_TMPDIR": temporary,
        "RAY_USAGE_STATS_ENABLED": "0",
        "VERL_FILE_LOGGER_PATH": str(log),
        "HYDRA_FULL_ERROR": "1",
    }


class _Metrics:
    """Follows the file logger; where no file comes, the console."""

    def __init__(self, log: Path, record: Record) -> None:
        self._file = Follow(log)
        self._record = record
        self._has_file = False
        self._console: tuple[int, dict[str, float]] | None = None
        self._skipped_update = False

    def on_line(self, line: str) -> None:
        """A line of the console."""
        if _NOT_FINITE in line:
            self._skipped_update = True
        found = console_step(line)
        if found is None or self._has_file:
            return
        self._flush_console()
        values = {name: number(text) for name, text in found[1].items()}
        self._console = (found[0], {name: value for name, value in values.items() if value is not None})

    def look(self, *, ended: bool = False) -> bool:
        """Reads what is new in the file; whether there was anything."""
        lines = self._file.lines(ended=ended)
        for line in lines:
            self._take(line)
        if ended:
            self._flush_console()
        return bool(lines)

    def _take(self, line: str) -> None:
        try:
            data = json.loads(line)
            step, logged = whole(data["step"]), dict(data["data"])
        except (ValueError, TypeError, KeyError):
            say(f"passed over a line of the file logger: {line[:120]}")
            return
        self._has_file, self._console = True, None
        if step is not None:
            # The file logger writes null for what was not finite.
            values = {name: math.nan if value is None else number(value) for name, value in logged.items()}
            self._emit(step, {name: value for name, value in values.items() if value is not None})

    def _flush_console(self) -> None:
        """A console step counts once the next one came and the file has still nothing."""
        if self._console is not None and not self._has_file:
            self._emit(*self._console)
        self._console = None

    def _emit(self, step: int, logged: Mapping[str, float]) -> None:
        values = translate(logged)
        if self._skipped_update:
            # verl zeroes the gradients, skips the update and goes on; the step must not pass for a good one.
            values["actor/grad_norm"] = math.nan
            self._skipped_update = False
        if values:
            self._record.step(step, values)


def _too_few_gpus(visible: str | None, wanted: int) -> str:
    if visible is None:
        return ""
    have = len([device for device in visible.split(",") if device.strip()])
    return "" if have >= wanted else f"verl wants {wanted} GPUs (trainer.n_gpus_per_node), the trial has {have}"


def _ended_well(record: Record, start: int, steps: int) -> int:
    if record.last_step >= steps:
        return record.finished()
    if start >= steps:
        record.last_step = start
        return record.finished()
    if record.last_step <= start:
        message = f"verl resumed after step {start} of {steps} and ended without training, with exit code 0"
        hint = "It stood at the end of its last epoch: raise trainer.total_epochs, or look for missing data."
        return record.failed("unknown", message, hint)
    message = f"verl ended by itself (exit code 0) after step {record.last_step} of {steps}"
    return record.failed("unknown", message, "Raise trainer.total_epochs: its epochs were over before its steps.")
