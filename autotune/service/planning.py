"""What a space would do, before it costs anything."""

from __future__ import annotations

from typing import Any

from autotune.search.types import Trial
from autotune.service.spaces import ResolvedSpace
from autotune.spec.domains import describe_domain
from autotune.spec.types import PrunerSpec
from autotune.states import TrialState
from autotune.views import ObjectiveView, ParameterView, PlanView

PROPOSALS = 4
"""Configurations that a plan shows."""


def plan_view(resolved: ResolvedSpace) -> PlanView:
    """The plan of a space that was checked.

    Raises:
        InvalidSpaceError: If no configuration meets its ``require`` conditions.
    """
    space, budget = resolved.space, resolved.space.budget
    return PlanView(
        name=space.name,
        description=space.description,
        backend=space.trainer.backend,
        config=space.trainer.config,
        objective=ObjectiveView(metric=space.objective.metric, direction=space.objective.direction.value),
        constraints=[constraint.text for constraint in space.constraints],
        sampler=space.sampler.name,
        seed=space.sampler.seed,
        pruners=[_pruner(pruner) for pruner in space.prune],
        parameters=[
            ParameterView(
                path=parameter.path,
                domain=describe_domain(parameter.domain),
                default=resolved.base.get(parameter.path),
                when=parameter.when.text if parameter.when else None,
            )
            for parameter in space.search.values()
        ],
        require=[condition.text for condition in space.require],
        trials=budget.trials,
        parallel=budget.parallel,
        steps=resolved.steps,
        max_steps=resolved.steps * budget.trials,
        wall_clock_s=budget.wall_clock_s,
        cpus_per_trial=space.resources.cpus,
        gpus_per_trial=space.resources.gpus,
        proposals=first_proposals(resolved, min(PROPOSALS, budget.trials)),
        warnings=_warnings(resolved),
    )


def first_proposals(resolved: ResolvedSpace, count: int) -> list[dict[str, Any]]:
    """The first configurations that a job of this space would try, searched parameters only."""
    from autotune.search.proposer import Proposer

    proposer = Proposer(resolved.space, resolved.base)
    trials: list[Trial] = []
    for number in range(count):
        starts = resolved.space.start_from
        given = number < len(starts)
        params = proposer.start(starts[number]) if given else proposer.propose(number, trials, {})
        source = starts[number].label if given else "sampler"
        config = {**resolved.base, **params}
        trials.append(Trial(number=number, state=TrialState.QUEUED, source=source, params=params, config=config))
    return [dict(trial.params) for trial in trials]


def _pruner(spec: PrunerSpec) -> str:
    options = ", ".join(f"{name}={value}" for name, value in spec.options.items() if value is not None)
    return f"{spec.name}({options})"


def _warnings(resolved: ResolvedSpace) -> list[str]:
    space = resolved.space
    found: list[str] = []
    if not space.prune:
        found.append("No pruner is set: every trial runs to its last step, however bad it is.")
    if not any(start.label == "default" for start in space.start_from):
        found.append(
            "The default configuration is not among the trials: add `start_from: [default]` to compare with it."
        )
    if space.budget.trials < 2 * len(space.search):
        found.append(
            f"{space.budget.trials} trials are few for {len(space.search)} parameters; "
            f"{5 * len(space.search)} or more give the sampler something to learn from."
        )
    return found
