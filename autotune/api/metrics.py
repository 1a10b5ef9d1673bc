"""``/metrics`` for Prometheus: what is queued, runs and was stopped and why, what was spent, how fast we answer.

Every label takes few values: states, pruners and kinds of errors come from our own lists, routes are templates, and
only the newest jobs at work are told apart. No person's name is a label.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from autotune import __version__
from autotune.api.census import OTHER, Census, Sums
from autotune.api.job_metrics import job_families
from autotune.api.latency import BUCKETS_S, Latency
from autotune.api.port import ServicePort
from autotune.api.problems import documented
from autotune.errors import AutotuneError
from autotune.search.types import EndKind
from autotune.spec.pruning import PRUNERS
from autotune.states import JobState, TrialState

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from autotune.service.occupancy import Occupancy

router = APIRouter(tags=["health"])

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Exposition:
    """Everything ``/metrics`` shows, gathered when it is asked for.

    Args:
        service: Whose jobs are counted and whose components are asked.
        latency: The durations of requests.
    """

    def __init__(self, service: ServicePort, latency: Latency) -> None:
        self.service = service
        self.latency = latency
        self.census = Census(service)

    def text(self) -> bytes:
        """The metrics in Prometheus' text format."""
        # Importing the client takes a while; only processes that are scraped pay for it.
        from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterable[Metric]:
        """The families of our own, as the client wants them."""
        yield _gauge("autotune_build_info", "The version that answers.", "version", {__version__: 1})
        components = {name: float(state == "ok") for name, state in self.service.ready().items()}
        yield _gauge("autotune_ready", "Whether a component works (1) or not (0).", "component", components)
        try:
            found = self.census.count(), self.service.occupancy()
        except AutotuneError:
            # Without the database there is nothing to count; autotune_ready says why.
            found = None
        if found is not None:
            sums, held = found
            yield from _counts(sums)
            yield from _held(held)
            yield from job_families(self.census.at_work())
        yield _histogram(self.latency)


@router.get(
    "/metrics",
    operation_id="getMetrics",
    response_class=Response,
    responses={200: {"description": "Metrics", "content": {"text/plain": {}}}, **documented()},
)
def get_metrics(request: Request) -> Response:
    """Shows the service's metrics in Prometheus' text format."""
    exposition: Exposition = request.app.state.exposition
    return Response(exposition.text(), media_type=MEDIA_TYPE)


def _counts(sums: Sums) -> Iterable[Metric]:
    yield _gauge("autotune_jobs", "Jobs by state.", "state", {state: sums.jobs[state] for state in JobState})
    yield _gauge("autotune_trials", "Trials by state.", "state", {state: sums.trials[state] for state in TrialState})
    pruners: dict[str, float] = {name: sums.pruners[name] for name in (*PRUNERS, OTHER)}
    yield _gauge("autotune_trials_stopped", "Trials that a pruner stopped.", "pruner", pruners)
    kinds = (kind for kind in EndKind if kind not in (EndKind.FINISHED, EndKind.STOPPED))
    errors: dict[str, float] = {kind: sums.errors[kind] for kind in (*kinds, OTHER)}
    yield _gauge("autotune_trials_failed", "Trials that ended with an error, by its kind.", "kind", errors)
    yield _advised(sums)
    yield _gauge("autotune_trial_seconds", "Seconds of all attempts of all trials.", None, {"": sums.cost_s})
    yield _gauge("autotune_gpu_hours", "GPU-hours charged to all trials.", None, {"": sums.gpu_hours})
    waited = "Seconds that the oldest job has waited for its first start; 0 when none waits."
    yield _gauge("autotune_queue_age_seconds", waited, None, {"": sums.queue_age_s})


def _held(held: Occupancy) -> Iterable[Metric]:
    slots = {"busy": held.gpus_busy}
    if held.gpus is not None:
        slots["idle"] = max(0.0, held.gpus - held.gpus_busy)
    yield _gauge("autotune_gpu_slots", "GPUs that running trials hold (busy), and those that are free.", "state", slots)
    text = "Seconds since the lease that was renewed longest ago was renewed; 0 when no driver works."
    yield _gauge("autotune_lease_age_seconds", text, None, {"": held.lease_age_s})


def _advised(sums: Sums) -> Metric:
    from prometheus_client.metrics_core import GaugeMetricFamily

    text = "Trials that came from advice, by the rule and by whether they did better than the trial it was for."
    family = GaugeMetricFamily("autotune_trials_advised", text, labels=["rule", "outcome"])
    for (rule, outcome), number in sorted(sums.advised.items()):
        family.add_metric([rule, outcome], number)
    return family


def _gauge(name: str, text: str, label: str | None, values: Mapping[str, float]) -> Metric:
    from prometheus_client.metrics_core import GaugeMetricFamily

    family = GaugeMetricFamily(name, text, labels=[label] if label else None)
    for value, number in values.items():
        family.add_metric([str(value)] if label else [], number)
    return family


def _histogram(latency: Latency) -> Metric:
    from prometheus_client.metrics_core import HistogramMetricFamily

    text = "Seconds until an answer began, by route template, method and status."
    family = HistogramMetricFamily("autotune_http_request_seconds", text, labels=["route", "method", "status"])
    bounds = [*map(str, BUCKETS_S), "+Inf"]
    for kind, found in latency.snapshot().items():
        buckets = list(zip(bounds, itertools.accumulate(map(float, found.counts)), strict=True))
        family.add_metric([kind.route, kind.method, kind.status], buckets, found.sum_s)
    return family
