"""The checkpoints in a trial directory: which there are, and taking over one of another trial."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

CHECKPOINTS = "checkpoints"
_NAME = re.compile(r"step_(\d+)")


def steps_of(directory: Path) -> list[int]:
    """The steps after which a trial has a checkpoint, ascending."""
    root = directory / CHECKPOINTS
    names = (_NAME.fullmatch(path.name) for path in root.iterdir()) if root.is_dir() else ()
    return sorted(int(name[1]) for name in names if name)


def adopt(source: Path, directory: Path, step: int) -> bool:
    """Gives a trial without checkpoints one of another trial's, complete or not at all.

    The files are linked where the file system can: they are never changed once they are written, and each trial removes
    its own names only.

    Args:
        source: The other trial's directory.
        directory: The trial's own directory.
        step: Which checkpoint.

    Returns:
        Whether the trial now begins there; ``False`` if it has checkpoints of its own, or the other one is gone.

    Raises:
        OSError: If it cannot be written.
    """
    name = f"step_{step}"
    origin, root = source / CHECKPOINTS / name, directory / CHECKPOINTS
    if steps_of(directory) or not origin.is_dir():
        return False
    root.mkdir(parents=True, exist_ok=True)
    temporary = root / f".{name}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.copytree(origin, temporary, copy_function=_link)
    temporary.rename(root / name)
    return True


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)
