"""verl's checkpoints in a trial directory: ``checkpoints/global_step_N`` and a file that names the newest."""

from __future__ import annotations

import shutil
from pathlib import Path

from autotune.backends.adapter.child import say
from autotune.backends.adapter.record import Record

TRACKER = "latest_checkpointed_iteration.txt"
_PREFIX = "global_step_"


class Checkpoints:
    """Announces checkpoints once they are complete: verl writes the tracker last.

    What a killed attempt left half-written is put right first, since verl would stumble over it: a tracker that names
    no checkpoint is set back, and a checkpoint newer than the tracker is removed.

    Args:
        directory: The trial directory.
        record: Where checkpoints are announced.

    Attributes:
        start: The step from which verl will go on; 0 without a checkpoint.
    """

    def __init__(self, directory: Path, record: Record) -> None:
        self._directory = directory / "checkpoints"
        self._record = record
        self.start = self._put_right()
        self._announced = self.start

    def look(self) -> bool:
        """Announces a new checkpoint; whether there was one."""
        step = self._tracked()
        if step is None or step <= self._announced:
            return False
        self._announced = step
        self._record.checkpoint(step, f"checkpoints/{_PREFIX}{step}")
        return True

    def _tracked(self) -> int | None:
        try:
            step = int((self._directory / TRACKER).read_text("ascii"))
        except (OSError, ValueError):
            return None
        return step if (self._directory / f"{_PREFIX}{step}").is_dir() else None

    def _put_right(self) -> int:
        step = self._tracked()
        if step is None:
            # Without a readable tracker the newest may be incomplete; the one before it was finished for sure.
            older = sorted(self._steps())[:-1]
            step = older[-1] if older else 0
            self._write_tracker(step)
        for number in self._steps():
            if number > step:
                say(f"removed checkpoint {_PREFIX}{number}, which was not finished")
                shutil.rmtree(self._directory / f"{_PREFIX}{number}", ignore_errors=True)
        return step

    def _write_tracker(self, step: int) -> None:
        tracker = self._directory / TRACKER
        if step == 0:
            tracker.unlink(missing_ok=True)
            return
        temporary = tracker.with_suffix(".tmp")
        temporary.write_text(str(step), "ascii")
        temporary.replace(tracker)

    def _steps(self) -> list[int]:
        names = [path.name.removeprefix(_PREFIX) for path in self._directory.glob(f"{_PREFIX}*")]
        return [int(name) for name in names if name.isdigit()]
