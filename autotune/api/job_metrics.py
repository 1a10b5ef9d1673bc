"""The part of ``/metrics`` that tells jobs apart: those at work, by their ids, so that one of them can be followed.

Only the newest are told apart and an ended one is left out, so the number of series stays small however many jobs
there were; Prometheus keeps what an ended one had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from autotune.states import TrialState
from autotune.views import JobView

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

MOST = 50
"""Jobs that are told apart at a time."""
LABEL = "autotune_job"
"""Not ``job``: Prometheus calls what it scrapes so."""

_SINGLES: Mapping[str, tuple[str, Callable[[JobView], float | None]]] = {
    "autotune_job_budget_trials": ("Trials that a job may spend.", lambda job: job.budget_trials),
    "autotune_job_best_value": ("Objective of the best trial so far.", lambda job: job.best_value),
    "autotune_job_default_value": ("Objective of the default configuration.", lambda job: job.default_value),
    "autotune_job_gpu_hours": ("GPU-hours charged to a job.", lambda job: job.cost_gpu_hours),
    "autotune_job_trial_seconds": ("Seconds of all attempts of a job.", lambda job: job.cost_s),
}


def job_families(jobs: Sequence[JobView]) -> Iterable[Metric]:
    """The gauges of single jobs.

    Args:
        jobs: Those that have not ended.
    """
    from prometheus_client.metrics_core import GaugeMetricFamily

    shown = sorted(jobs, key=lambda job: job.created_at, reverse=True)[:MOST]
    trials = GaugeMetricFamily("autotune_job_trials", "Trials of a job at work, by state.", labels=[LABEL, "state"])
    for job in shown:
        for state in TrialState:
            trials.add_metric([job.id, str(state)], job.trials.get(state, 0))
    yield trials
    for name, (text, read) in _SINGLES.items():
        family = GaugeMetricFamily(name, text, labels=[LABEL])
        for job in shown:
            value = read(job)
            if value is not None:
                family.add_metric([job.id], value)
        yield family
