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


def default(steps: int) -> Pruners:
    """The rules that `autotune init` writes for runs of this many steps, but for its ceiling of the KL.

    They stop hardly anything that would have ended among the best (`pruner_costs.py`); rungs at early steps stop most.
    """
    return {
        "reward_collapse": {"drop": 0.5, "patience": 5},
        "not_finite": {},
        "extrapolate": {"min_steps": steps // 4, "every": max(1, steps // 8)},
    }


def ours(
    problem: Problem, seed: int, *, trials: int, parallel: int, sampler: str = "tpe", prune: Pruners | None = None
) -> Coordinator:
    """A coordinator over the problem's parameters, without starts, priors or constraints; with the default's rules."""
    rules = default(problem.steps) if prune is None else prune
    space = Space(
        name=problem.task,
        trainer=TrainerSpec(),
        resources=Resources(),
        search={path: Parameter(path=path, domain=domain) for path, domain in problem.domains.items()},
        objective=Objective(metric=problem.metric, smooth=problem.smooth),
        sampler=SamplerSpec(name=sampler, seed=seed),
        prune=tuple(PrunerSpec(name=name, options=dict(options)) for name, options in rules.items()),
        budget=Budget(trials=trials, parallel=parallel),
        retry=Retry(attempts=0, on=()),
        start_from=(),
    )
    return Coordinator(space, {}, MemoryBook(), fence="bench", total_steps=problem.steps)
