"""How busy the machines are: GPU slots that trials hold, those that are free, and how fresh the drivers' leases are."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from autotune.preflight.machine import gpu_count
from autotune.settings import Settings
from autotune.states import TrialState
from autotune.store.database import UnitOfWork

_FILE = "cluster.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Occupancy:
    """What is held at one moment.

    Attributes:
        gpus_busy: GPUs that running trials hold.
        gpus: GPUs of all machines; ``None`` while no driver has seen the cluster.
        lease_age_s: Seconds since the lease that was renewed longest ago was renewed; 0 when no driver works.
    """

    gpus_busy: float
    gpus: float | None
    lease_age_s: float


def note_cluster(settings: Settings, resources: Mapping[str, float]) -> None:
    """Keeps what Ray has in all, for the service beside this driver; failing is no harm."""
    path = settings.root / _FILE
    temporary = path.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        temporary.write_text(json.dumps({"gpus": resources.get("GPU", 0.0)}))
        temporary.replace(path)


def occupancy(work: UnitOfWork, settings: Settings, now: float) -> Occupancy:
    """What is held at this moment, over all jobs with a driver."""
    busy, ages = 0.0, [0.0]
    for job in work.jobs.driven():
        running = work.trials.totals([job.id])[job.id].states.get(str(TrialState.RUNNING), 0)
        busy += running * gpus_of_trial(job.document)
        if job.lease_expires is not None:
            ages.append(now - (job.lease_expires - settings.lease_s))
    return Occupancy(gpus_busy=busy, gpus=_gpus(settings), lease_age_s=max(ages))


def gpus_of_trial(document: Mapping[str, object]) -> float:
    """GPUs that one trial of a job holds."""
    resources = document.get("resources")
    gpus = resources.get("gpus") if isinstance(resources, Mapping) else None
    return float(gpus) if isinstance(gpus, int | float) else 0.0


def _gpus(settings: Settings) -> float | None:
    if settings.ray_address is None:
        return float(_here())
    try:
        return float(json.loads((settings.root / _FILE).read_text())["gpus"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


@cache
def _here() -> int:
    return gpu_count()
