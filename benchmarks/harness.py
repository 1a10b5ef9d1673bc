"""What every benchmark shares: its options, the machine it ran on, targets, and one document at the end."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A figure that should be reached.

    Attributes:
        at_least: Whether ``value`` should be above ``target``, else below.
    """

    name: str
    value: float
    target: float
    at_least: bool = True

    @property
    def holds(self) -> bool:
        """Whether the target is reached."""
        return self.value >= self.target if self.at_least else self.value <= self.target


def parser(description: str) -> argparse.ArgumentParser:
    """Knows ``--quick``, ``--json`` and ``--check``; a benchmark may add options of its own."""
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--quick", action="store_true", help="about a minute, for a first look")
    result.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    result.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    return result


def options(description: str, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads ``--quick``, ``--json`` and ``--check``."""
    return parser(description).parse_args(arguments)


def machine() -> dict[str, object]:
    """The machine in a few words."""
    return {
        "system": platform.system(),
        "processor": platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, smallest and largest of some measurements."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def finish(
    name: str,
    chosen: argparse.Namespace,
    results: Mapping[str, object],
    targets: Sequence[Target],
    packages: Sequence[str],
) -> int:
    """Prints the outcome; returns the exit code."""
    document = {
        "name": name,
        "machine": machine(),
        "versions": {package: metadata.version(package) for package in packages},
        "results": dict(results),
        "targets": [
            {**{key: value for key, value in asdict(target).items() if key != "at_least"}, "holds": target.holds}
            for target in targets
        ],
    }
    if chosen.json:
        print(json.dumps(document, indent=2))
    else:
        for key, value in results.items():
            print(f"{key}: {json.dumps(value)}")
        for target in targets:
            state, sign = "ok  " if target.holds else "MISS", ">=" if target.at_least else "<="
            print(f"{state} {target.name}: {target.value:.3g} (target {sign} {target.target:g})")
    return 1 if chosen.check and not all(target.holds for target in targets) else 0


def progress(text: str) -> None:
    """Says on stderr how far a benchmark is."""
    print(text, file=sys.stderr, flush=True)
