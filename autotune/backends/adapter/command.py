"""Runs the person's own command and reads its metrics."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from autotune.backends.adapter.child import Child, end_like, say
from autotune.backends.adapter.follow import Follow
from autotune.backends.adapter.readers import reader_of
from autotune.backends.adapter.record import Record
from autotune.backends.adapter.steps import Steps
from autotune.spec.placeholders import fill
from autotune.spec.values import JsonValue

OUTPUT_DIR = "output"
_REMEMBERED = 3


def run_command(config: Mapping[str, Any], directory: Path) -> int:
    """Runs one attempt; returns the adapter's exit code.

    Args:
        config: The trial's configuration as a tree.
        directory: The trial directory.
    """
    own = config["backend"]
    output = directory / OUTPUT_DIR
    output.mkdir(exist_ok=True)
    values = _values(config, output)
    argv = [fill(part, values) for part in own["command"]]
    env = {**os.environ, **{name: fill(text, values) for name, text in own["env"]}}
    record, metrics = Record(directory), _Metrics(own["metrics"], output)
    steps = Steps(metrics.names, record.step, numbered=metrics.reader.numbered)
    metrics.steps = steps
    workdir, stall_s = Path(own["workdir"]), own["stall_s"]
    child = Child(argv, env, workdir, on_line=metrics.on_line, on_look=metrics.on_look, stall_s=stall_s)
    metrics.on_news = child.touch
    say(f"in {own['workdir']}: {' '.join(argv)}")
    try:
        code = child.run()
    except OSError as error:
        hint = "Correct trainer.command and trainer.workdir; they must exist on the machine that runs the trials."
        return record.failed("unknown", f"cannot start {argv[0]!r}: {error.strerror or error}", hint)
    metrics.on_look(ended=True)
    steps.flush()
    if child.stopping:
        return record.stopped()
    if child.hung:
        return hung(record, stall_s)
    return end_like(code) if code != 0 else _ended_well(record, metrics, int(config["steps"]))


def _values(config: Mapping[str, Any], output: Path) -> dict[str, JsonValue]:
    from autotune.backends.config_file import flat

    names = {name for name, _ in config["backend"]["parameters"]} | {"steps", "seed"}
    values = {name: value for name, value in flat(dict(config)).items() if name in names}
    path = output / "parameters.json"
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    return {**values, "output_dir": str(output), "config": str(path)}


class _Metrics:
    """Reads from the file or from the output, and remembers what could not be used."""

    steps: Steps
    on_news: Callable[[], None]

    def __init__(self, spec: Mapping[str, Any], output: Path) -> None:
        self.names: dict[str, str] = dict(spec["names"])
        self.reader = reader_of(spec["read"], spec["step"], self.names, spec["patterns"])
        self.place = str(output / spec["file"]) if spec["file"] else "its output"
        self.seen: deque[str] = deque(maxlen=_REMEMBERED)
        self._file = Follow(output / spec["file"]) if spec["file"] else None
        if self._file is not None and (header := self._file.earlier()):
            self.reader.read(header)

    def on_line(self, line: str) -> None:
        """A line of the program's output."""
        if self._file is None:
            self._take(line)

    def on_look(self, *, ended: bool = False) -> None:
        """Time to look into the file."""
        for line in self._file.lines(ended=ended) if self._file is not None else ():
            self.on_news()
            self._take(line)

    def _take(self, line: str) -> None:
        self.seen.append(line.strip()[:200])
        found = self.reader.read(line)
        if found is not None:
            self.steps.add(found.step, found.values)


def hung(record: Record, stall_s: float) -> int:
    """The result of a program that showed nothing any more and was ended for it."""
    message = f"no output and no metric for {stall_s:g} s after step {record.last_step}; the program was ended as hung"
    return record.failed("crash", message, "Look at the end of the log; raise trainer.stall if it was only slow.")


def _ended_well(record: Record, metrics: _Metrics, steps: int) -> int:
    if record.first_step is None:
        sought = ", ".join(repr(source) for source in metrics.names.values())
        read = f"The last lines read were: {' | '.join(metrics.seen)}" if metrics.seen else "Nothing was written there."
        message = f"the program ended without one metric: looked for {sought} in {metrics.place}"
        return record.failed("unknown", message, f"Correct trainer.metrics. {read}")
    if record.first_step == 0 and record.last_step == steps - 1:
        record.last_step = steps  # it counts from 0
    if record.last_step < steps:
        message = f"the program ended by itself (exit code 0) after step {record.last_step} of {steps}"
        hint = "Set trainer.steps (or budget.steps) to what it does, and pass {steps} on to it."
        return record.failed("unknown", message, hint)
    return record.finished()
