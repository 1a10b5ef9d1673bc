"""Finds verl in the environment of an interpreter, without importing it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import Problem

KNOWN_VERSION = "0.9.1"
_CODE = (
    "import importlib.metadata as m, importlib.util as u, json; s = u.find_spec('verl'); "
    "print(json.dumps([list(s.submodule_search_locations), m.version('verl')] if s else None))"
)
_PATIENCE_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    """verl in one environment.

    Attributes:
        python: The interpreter.
        configs: The directory of verl's own Hydra configurations.
    """

    python: str
    version: str
    configs: Path


_FOUND: dict[str, Installation] = {}


def find(python: str) -> Installation | Problem:
    """Looks where an interpreter would import verl from; answers what is wrong where it would not.

    Args:
        python: Path or name of an interpreter; empty = this one.
    """
    found = _FOUND.get(python) or _look(python)
    if isinstance(found, Installation):
        _FOUND[python] = found  # what is missing may still be installed while this process lives
    return found


def _look(python: str) -> Installation | Problem:
    path = "trainer.python"
    program = shutil.which(str(Path(python).expanduser())) if python else sys.executable
    if program is None:
        hint = "Write the path of the interpreter of verl's environment, for example /opt/verl/bin/python"
        return Problem(message=f"there is no interpreter {python!r}.", hint=hint, path=path)
    try:
        # Not isolated: PYTHONPATH counts when verl runs, so it counts here. The root directory holds no modules.
        run = subprocess.run(
            [program, "-c", _CODE], cwd="/", capture_output=True, text=True, timeout=_PATIENCE_S, check=True
        )
        found = json.loads(run.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines() or [type(error).__name__]
        return Problem(message=f"{program} does not answer like a Python: {said[-1]}.", hint="Try it.", path=path)
    if not found:
        hint = f"Install it there ({program} -m pip install verl[vllm]=={KNOWN_VERSION}), or name another interpreter."
        return Problem(message=f"verl is not installed for {program}.", hint=hint, path=path)
    (where, *_), version = found
    configs = Path(where) / "trainer" / "config"
    if not (configs / "ppo_trainer.yaml").is_file():
        message = f"verl {version} in {where} has no configuration trainer/config/ppo_trainer.yaml."
        return Problem(message=message, hint=f"Install verl {KNOWN_VERSION}.", path=path)
    return Installation(python=program, version=version, configs=configs)
