"""Our trials in MLflow's words, within its limits."""

from __future__ import annotations

import hashlib
import json
import math
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from autotune.search.types import Point, Trial
from autotune.spec.values import FlatConfig, JsonValue
from autotune.states import JobState, TrialState

Item = TypeVar("Item")

MAX_KEY = 250
MAX_PARAM = 6000
MAX_TAG = 5000
"""MLflow's own limit is 8000 in some stores and 5000 in older servers."""
MAX_PARAMS_PER_BATCH = 100
MAX_METRICS_PER_BATCH = 900
"""MLflow allows 1000 metrics and 1000 entities of all kinds together."""

_STATUS: Mapping[TrialState, str] = {
    TrialState.QUEUED: "SCHEDULED",
    TrialState.RUNNING: "RUNNING",
    TrialState.PAUSED: "RUNNING",
    TrialState.COMPLETED: "FINISHED",
    TrialState.PRUNED: "KILLED",
    TrialState.INFEASIBLE: "FAILED",
    TrialState.FAILED: "FAILED",
    TrialState.CANCELLED: "KILLED",
}
_JOB_STATUS: Mapping[JobState, str] = {
    JobState.COMPLETED: "FINISHED",
    JobState.FAILED: "FAILED",
    JobState.CANCELLED: "KILLED",
}


def status(trial: Trial) -> str:
    """MLflow's run status for a trial."""
    return _STATUS[trial.state]


def job_status(state: JobState) -> str:
    """MLflow's run status for a job; one that has not ended keeps running there."""
    return _JOB_STATUS.get(state, "RUNNING")


def key(name: str) -> str:
    """A parameter's or metric's name as MLflow accepts it; long ones end in a digest that keeps them apart."""
    safe = re.sub(r"[^/\w.\- :]", "_", name)
    norm = posixpath.normpath(safe)  # "." for an empty name
    if norm != safe or norm == "." or norm.startswith(("..", "/")):
        safe = safe.replace("/", "_").strip(".") or "_"
    if len(safe) > MAX_KEY:
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        safe = f"{safe[: MAX_KEY - 9]}-{digest}"
    return safe


def params(values: FlatConfig) -> tuple[dict[str, str], dict[str, str]]:
    """Parameters as MLflow stores them, and those too long for it as artifact name -> text."""
    kept: dict[str, str] = {}
    artifacts: dict[str, str] = {}
    for name, value in values.items():
        text = _text(value)
        if len(text) > MAX_PARAM:
            place = f"params/{re.sub(r'[^A-Za-z0-9_.-]', '_', key(name))}.json"
            artifacts[place] = text
            text = f"see the artifact {place}"
        kept[key(name)] = text
    return kept, artifacts


def short_names(values: FlatConfig) -> dict[str, JsonValue]:
    """The same parameters under the last part of their paths, where only one of them is called so."""
    ends = Counter(path.rpartition(".")[2] for path in values)
    named = {path.rpartition(".")[2]: value for path, value in values.items()}
    return {name: value for name, value in named.items() if ends[name] == 1 and name not in values}


def tags(trial: Trial) -> dict[str, str]:
    """What a person sees beside a trial's run."""
    found = {"autotune.state": str(trial.state), "autotune.source": trial.source}
    if trial.source.startswith("pbt-"):
        # MLflow never changes a parameter; these are the values after the last exchange of a population.
        found["autotune.last_values"] = json.dumps(dict(trial.params), sort_keys=True)
    if trial.attempt is not None:
        found["autotune.attempt"] = str(trial.attempt.number)
    if trial.reason is not None:
        found["autotune.pruner"], found["autotune.reason"] = trial.reason.pruner, trial.reason.text
    if trial.error_kind is not None:
        found["autotune.error"] = f"{trial.error_kind}: {trial.error_message}"
    if trial.value is not None and math.isfinite(trial.value):
        found["autotune.value"] = repr(trial.value)
        found["autotune.feasible"] = "true" if trial.feasible else "false"
    if trial.state is not TrialState.RUNNING:
        found["autotune.cost_s"] = f"{trial.cost_s:.1f}"
    return {name: value[:MAX_TAG] for name, value in found.items()}


def divergence(point: Point) -> str | None:
    """Which metrics of a step were not finite; MLflow would store them as 0 or as huge numbers."""
    lost = sorted(name for name, value in point.metrics.items() if value is None or not math.isfinite(value))
    return f"{', '.join(lost)} at step {point.step}"[:MAX_TAG] if lost else None


def measured(points: Sequence[Point]) -> list[tuple[str, float, int, int]]:
    """The finite values of points as (key, value, milliseconds since the epoch, step)."""
    return [
        (key(name), value, int(point.time * 1000), point.step)
        for point in points
        for name, value in point.metrics.items()
        if value is not None and math.isfinite(value)
    ]


def chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Parts of at most ``size`` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)
