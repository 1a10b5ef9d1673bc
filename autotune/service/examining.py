"""A space looked at as the doctor looks at a machine: its configuration, its data and reward, its first trials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autotune.backends import get_backend
from autotune.backends.verl.backend import other_keys
from autotune.backends.verl.installation import KNOWN_VERSION
from autotune.preflight import Check, Status
from autotune.preflight.machine import gpu_count
from autotune.preflight.trial import trial_context
from autotune.preflight.trial.survey import failures, survey
from autotune.service.checking import TrialCheck
from autotune.service.planning import PROPOSALS, first_proposals
from autotune.service.spaces import ResolvedSpace
from autotune.settings import Settings
from autotune.spec.values import FlatConfig


def examine(resolved: ResolvedSpace, settings: Settings) -> list[Check]:
    """Everything that can be said of a space without training; with stages of each, under its name.

    Raises:
        InvalidSpaceError: If no configuration meets its ``require`` conditions.
    """
    found: list[Check] = []
    for part in resolved.parts:
        checks = list(_part(part, settings))
        found += checks if part.stage is None else [_of_stage(check, part.stage.name) for check in checks]
    return found


def _part(part: ResolvedSpace, settings: Settings) -> Iterator[Check]:
    space, budget = part.space, part.space.budget
    trials = f"{budget.trials} trials of {part.steps} steps, {budget.parallel} at a time"
    text = f"{space.name}: {trials}, on {space.trainer.backend}"
    yield Check(name="space", status=Status.OK, text=text)
    yield _gpus(part, settings)
    if "backend.version" in part.base:
        yield _verl(part.base)
    wrong = list(get_backend(space.trainer.backend).check(part.base))
    yield from failures("configuration", wrong)
    if not wrong:
        text = f"the default configuration passes the rules of {space.trainer.backend}"
        yield Check(name="configuration", status=Status.OK, text=text)
        context = trial_context(space.trainer.backend, part.base, space.resources.gpus, settings)
        if context is not None:
            yield from survey(context)
    check = TrialCheck(space, settings)
    if not wrong:
        tried = check.tried(part.base)
        yield from failures("data and reward", list(tried.problems))
        for fact in tried.facts:
            yield Check(name="data and reward", status=Status.OK, text=fact)
    yield _first_trials(part, check)


def _gpus(part: ResolvedSpace, settings: Settings) -> Check:
    gpus, parallel = part.space.resources.gpus, part.space.budget.parallel
    name = "GPUs of a trial"
    if gpus == 0:
        return Check(name=name, status=Status.OK, text="none; trials run on the CPU")
    wanted = f"{gpus:g} for each of {parallel} at a time"
    if settings.ray_address is not None:
        return Check(name=name, status=Status.OK, text=f"{wanted}; the Ray at {settings.ray_address} has to have them")
    there = gpu_count()
    text = f"{wanted}; this machine has {there}"
    if gpus > there:
        fix = "Lower resources.gpus, or set AUTOTUNE_RAY_ADDRESS to a cluster that has them."
        return Check(name=name, status=Status.FAIL, text=f"{text}: no trial would ever start", fix=fix, exit_code=3)
    if gpus * parallel > there:
        fits = int(there / gpus)
        fix = f"budget.parallel: {fits} says what will happen."
        return Check(name=name, status=Status.WARN, text=f"{text}: {fits} at a time fit", fix=fix)
    return Check(name=name, status=Status.OK, text=text)


def _verl(base: FlatConfig) -> Check:
    """Which verl it is, and which keys of the known one it does not have."""
    version, where = str(base["backend.version"]), base["backend.python"]
    if not (other := other_keys(version, base)):
        return Check(name="verl", status=Status.OK, text=f"{version} at {where}")
    fix = f"What is set under these names is refused; verl {KNOWN_VERSION} has them all."
    return Check(name="verl", status=Status.WARN, text=f"{other}; it is at {where}", fix=fix)


def _first_trials(part: ResolvedSpace, check: TrialCheck) -> Check:
    """How many of the first proposals could be launched."""
    proposals = first_proposals(part, min(PROPOSALS, part.space.budget.trials))
    wrong = [problem for values in proposals for problem in check.without_trying({**part.base, **values})[:1]]
    if not wrong:
        return Check(name="first trials", status=Status.OK, text=f"the first {len(proposals)} could be launched")
    text = f"{len(wrong)} of the first {len(proposals)} would not be launched: {wrong[0]}"
    fix = "Narrow the search, or add a `require` condition that says what works."
    return Check(name="first trials", status=Status.WARN, text=text, fix=fix)


def _of_stage(check: Check, stage: str) -> Check:
    return replace(check, name=f"{stage}: {check.name}")
