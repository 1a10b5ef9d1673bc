"""The checkpoints in a trial directory: which there are, and taking over one of another trial."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from autotune.errors import AutotuneError

CHECKPOINTS = "checkpoints"
_NAME = re.compile(r"step_(\d+)")


class CheckpointGoneError(AutotuneError, FileNotFoundError):
    """The checkpoint that a trial should go on from is not there."""

    code = "checkpoint_gone"


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


def take_over(source: Path, directory: Path, step: int) -> None:
    """Gives a trial another trial's checkpoint in place of all of its own; repeating it changes nothing.

    Its own go first, so that it never goes on from what it has given up.

    Args:
        source: The other trial's directory.
        directory: The trial's own directory.
        step: Which checkpoint.

    Raises:
        OSError: If it cannot be written.
        CheckpointGoneError: If the other trial has no such checkpoint.
    """
    if not (source / CHECKPOINTS / f"step_{step}").is_dir():
        raise CheckpointGoneError(
            f"trial {source.name} has no checkpoint of step {step} to go on from.",
            hint="Somebody removed it; leave the directories of a running job alone.",
        )
    shutil.rmtree(directory / CHECKPOINTS, ignore_errors=True)
    adopt(source, directory, step)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)
