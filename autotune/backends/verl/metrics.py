"""From one step's metrics of verl to ours. Standard library only: the adapter uses it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from autotune.backends.verl.names import METRICS

_VALIDATION = re.compile(r"val-(?:core|aux)/(?P<source>.+)/(?P<what>reward|acc)/mean@(?P<n>\d+)")
_CONSOLE = re.compile(r"\bstep:(\d+) - (.*)")


def translate(logged: Mapping[str, float]) -> dict[str, float]:
    """Our metrics of a step.

    Args:
        logged: verl's metrics of the step; a value that was not finite is NaN.
    """
    found: dict[str, float] = {}
    for name, metric in METRICS.items():
        source = next((source for source in metric.sources if source in logged), None)
        if source is not None:
            found[name] = logged[source]
    found.update(_validation(logged))
    return found


def _validation(logged: Mapping[str, float]) -> dict[str, float]:
    """``eval/reward`` and ``eval/accuracy``: the mean over the data sources, each with its largest N."""
    best: dict[str, dict[str, tuple[int, float]]] = {"reward": {}, "acc": {}}
    for name, value in logged.items():
        match = _VALIDATION.fullmatch(name)
        if match is not None:
            of_source = best[match["what"]]
            count = int(match["n"])
            if count >= of_source.get(match["source"], (0, 0.0))[0]:
                of_source[match["source"]] = (count, value)
    means = {what: _mean([value for _, value in by.values()]) for what, by in best.items() if by}
    found = {"eval/accuracy": means["acc"]} if "acc" in means else {}
    if means:
        # verl exposes a reward that is a bare number as `acc` alone.
        found["eval/reward"] = means.get("reward", means.get("acc", math.nan))
    return found


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def console_step(line: str) -> tuple[int, dict[str, str]] | None:
    """The step and the raw values of a line of verl's console logger; ``None`` for any other line."""
    match = _CONSOLE.search(line)
    if match is None:
        return None
    pairs = (part.rpartition(":") for part in match[2].split(" - "))
    return int(match[1]), {name.strip(): value for name, colon, value in pairs if colon}
