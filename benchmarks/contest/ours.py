"""Our own search, as `autotune launch` builds it from a space file."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.search.book import MemoryBook
from autotune.search.coordinator import Coordinator
from autotune.spec.types import (
    Budget,
    Objective,
    Parameter,
    PrunerSpec,
    Resources,
    Retry,
    SamplerSpec,
    Space,
    TrainerSpec,
)
from contest.problem import Problem

Pruners = Mapping[str, Mapping[str, object]]

DEFAULT: Pruners = {"extrapolate": {}, "not_finite": {}}
"""Stops nothing that would have ended among the best (`pruner_costs.py`); rungs at early steps stop most of it."""


def ours(
    problem: Problem, seed: int, *, trials: int, parallel: int, sampler: str = "tpe", prune: Pruners = DEFAULT
) -> Coordinator:
    """A coordinator over the problem's parameters, without starts, priors or constraints."""
    space = Space(
        name=problem.task,
        trainer=TrainerSpec(),
        resources=Resources(),
        search={path: Parameter(path=path, domain=domain) for path, domain in problem.domains.items()},
        objective=Objective(metric=problem.metric, smooth=problem.smooth),
        sampler=SamplerSpec(name=sampler, seed=seed),
        prune=tuple(PrunerSpec(name=name, options=dict(options)) for name, options in prune.items()),
        budget=Budget(trials=trials, parallel=parallel),
        retry=Retry(attempts=0, on=()),
        start_from=(),
    )
    return Coordinator(space, {}, MemoryBook(), fence="bench", total_steps=problem.steps)
