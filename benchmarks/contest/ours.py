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

DEFAULT: Pruners = {
    "asha": {"min_steps": 2, "reduction_factor": 4, "mode": "stop", "protect_top": 0},
    "not_finite": {},
}
"""Rungs from a twentieth of the full length on, each trial judged once, as the peers do by default."""


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
