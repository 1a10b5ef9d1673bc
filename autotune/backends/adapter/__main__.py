"""Run by path, in the trial directory: what it runs must find its own modules and not those of this project."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Runs the adapter that the trial's configuration names; returns its exit code."""
    root = str(Path(__file__).resolve().parents[3])
    if root not in sys.path:
        sys.path.insert(0, root)
    from autotune.backends.adapter.run import run_trial

    return run_trial(Path.cwd())


if __name__ == "__main__":
    sys.exit(main())
