"""What a space would do, before it costs anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from autotune.backends.verl.backend import other_keys
from autotune.preflight.trial.ports import KEY as PORT
from autotune.search.types import Trial
from autotune.service.checking import TrialCheck
from autotune.service.present import objective_views
from autotune.service.spaces import ResolvedSpace
from autotune.settings import Settings
from autotune.spec.domains import describe_domain
from autotune.spec.stages import words
from autotune.spec.types import PrunerSpec, Space
from autotune.spec.values import FlatConfig
from autotune.states import TrialState
from autotune.views import ObjectiveView, ParameterView, PlanView, StagePlanView

PROPOSALS = 4
"""Configurations that a plan shows."""


def plan_view(resolved: ResolvedSpace, settings: Settings) -> PlanView:
    """The plan of a space that was checked.

    Args:
        resolved: The space.
        settings: Where its trials would run.

    Raises:
        InvalidSpaceError: If no configuration meets its ``require`` conditions.
    """
    if not resolved.stages:
        return _plan(resolved, settings)
    plans = [_plan(part, settings) for part in resolved.stages]
    stages = [
        StagePlanView(
            name=stage.name,
            criteria=[criterion.text for criterion in stage.criteria],
            carry=words(stage) if place + 1 < len(plans) else "",
            on_fail=stage.on_fail.value,
            plan=plan,
        )
        for place, (stage, plan) in enumerate(zip(resolved.space.stages, plans, strict=True))
    ]
    limits = [plan.wall_clock_s for plan in plans]
    return replace(
        plans[-1],
        name=resolved.space.name,
        description=resolved.space.description,
        trials=sum(plan.trials for plan in plans),
        max_steps=sum(plan.max_steps for plan in plans),
        wall_clock_s=None if None in limits else sum(limit for limit in limits if limit is not None),
        warnings=[f"Stage {stage.name}: {warning}" for stage in stages for warning in stage.plan.warnings],
        stages=stages,
    )


def _plan(resolved: ResolvedSpace, settings: Settings) -> PlanView:
    """The plan of one search."""
    space, budget = resolved.space, resolved.space.budget
    check = TrialCheck(space, settings)
    proposals = first_proposals(resolved, min(PROPOSALS, budget.trials))
    return PlanView(
        name=space.name,
        description=space.description,
        backend=space.trainer.backend,
        config=space.trainer.config,
        objective=ObjectiveView(metric=space.objective.metric, direction=space.objective.direction.value),
        objectives=objective_views(space.objective),
        constraints=[constraint.text for constraint in space.constraints],
        sampler=space.sampler.name,
        seed=space.sampler.seed,
        pruners=[*map(_pruner, space.prune), *_population(space)],
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
        proposals=proposals,
        warnings=[*_warnings(resolved), *_refusals(resolved, check, proposals)],
        memory=check.memory(resolved.base),
        advisor_share=space.advisor.share if space.advisor else 0.0,
    )


def _refusals(resolved: ResolvedSpace, check: TrialCheck, proposals: Sequence[FlatConfig]) -> list[str]:
    """What keeps the default and the first configurations from running, each thing once."""
    found: dict[str, str] = {}
    configs = {"the default configuration": resolved.base}
    configs |= {f"configuration {place}": {**resolved.base, **values} for place, values in enumerate(proposals)}
    for name, config in configs.items():
        for problem in check.without_trying(config):
            found.setdefault(str(problem), f"{name[:1].upper()}{name[1:]} would not be launched: {problem}")
    port = resolved.base.get(PORT)
    if port is not None and resolved.space.budget.parallel > 1:
        found["port"] = (
            f"All trials would wait on the same port, {PORT} = {port}, and {resolved.space.budget.parallel} run at a "
            "time: set it to null, then each takes a free one."
        )
    return list(found.values())


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


def _population(space: Space) -> list[str]:
    """The population beside the pruners: it pauses the trials and changes them."""
    return [] if space.population is None else [_pruner(PrunerSpec(name="pbt", options=asdict(space.population)))]


def _warnings(resolved: ResolvedSpace) -> list[str]:
    space = resolved.space
    found: list[str] = []
    if space.trainer.backend == "verl" and (other := other_keys(str(resolved.base["backend.version"]), resolved.base)):
        found.append(f"{other}; what is set under these names is refused.")
    if not space.prune:
        found.append("No pruner is set: every trial runs to its last step, however bad it is.")
    if not any(start.label == "default" for start in space.start_from):
        found.append(
            "The default configuration is not among the trials: add `start_from: [default]` to compare with it."
        )
    if space.population is None and space.budget.trials < 2 * len(space.search):
        found.append(
            f"{space.budget.trials} trials are few for {len(space.search)} parameters; "
            f"{5 * len(space.search)} or more give the sampler something to learn from."
        )
    return found
