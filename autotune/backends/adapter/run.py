"""Reads the trial's configuration and runs the adapter that it names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from autotune.backends.adapter.command import run_command
from autotune.backends.adapter.verl import run_verl
from autotune.backends.config_file import CONFIG_FILE

ADAPTERS: dict[str, Callable[[Mapping[str, Any], Path], int]] = {"command": run_command, "verl": run_verl}
"""Value of ``backend.name`` -> what runs it."""


def run_trial(directory: Path) -> int:
    """Runs one attempt in a trial directory; returns the exit code."""
    config = json.loads((directory / CONFIG_FILE).read_text("utf-8"))
    return ADAPTERS[config["backend"]["name"]](config, directory)
