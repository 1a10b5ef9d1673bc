"""From the text of a space file to everything a job needs to know about it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autotune.backends import get_backend
from autotune.errors import InvalidConfigError, InvalidSpaceError, Problem
from autotune.service.populations import check_population
from autotune.spec.check import check_criteria, check_space, unknown_names
from autotune.spec.loader import draft_space
from autotune.spec.places import placed
from autotune.spec.types import Space, Stage
from autotune.spec.values import FlatConfig, JsonValue


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedSpace:
    """A space that was checked against its backend. With stages, all but they belong to the last one.

    Attributes:
        base: The complete configuration with the fixed overrides and the length of a trial, without searched values.
        steps: Training steps of a full trial.
        steps_path: The configuration's own path for ``steps``.
        seed_path: The configuration's own path for the seed.
        document: The space as plain JSON with ``budget.steps`` filled in; it resolves to the same again.
        digest: Hash of the document.
        carried: What earlier stages have fixed; it is part of ``base``.
        stage: What this is as a stage of a job; ``None`` for the only search of a job without stages.
        stages: The stages in order.
    """

    space: Space
    base: FlatConfig
    steps: int
    steps_path: str
    seed_path: str
    document: dict[str, JsonValue]
    digest: str
    carried: FlatConfig = field(default_factory=dict)
    stage: Stage | None = None
    stages: tuple[ResolvedSpace, ...] = ()

    @property
    def parts(self) -> tuple[ResolvedSpace, ...]:
        """The searches in order: the stages, or this one alone."""
        return self.stages or (self,)


def resolve_space(source: str, file: str) -> ResolvedSpace:
    """Reads a space and checks it against the backend that it names.

    Raises:
        InvalidSpaceError: With every problem, each with its place in the file.
    """
    space, report = draft_space(source, file=file)
    if report.problems:
        report.problems += _also_wrong(space, [problem.path for problem in report.problems])
        report.close(file)
    document = json.loads(json.dumps(dict(space.document)))
    if not space.stages:
        return _resolve(space, document, file)
    stages: list[ResolvedSpace] = []
    problems: list[Problem] = []
    for index, stage in enumerate(space.stages):
        try:
            stages.append(_resolve_stage(stage, document, index, file))
        except InvalidSpaceError as error:
            problems += [_in_stage(problem, index, stage) for problem in error.problems] or [
                Problem(message=f"stage {stage.name}: {error.message}", hint=error.hint, file=file)
            ]
    problems = list(dict.fromkeys(problems))  # what the stages share is told once
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise InvalidSpaceError(
            f"{file} cannot be used: {count}.",
            hint="Correct the file and try again with: autotune plan FILE",
            problems=problems,
        )
    last = stages[-1]
    return replace(
        last, space=replace(space, budget=last.space.budget), stage=None, stages=tuple(stages), digest=_digest(document)
    )


def _also_wrong(space: Space, told: Sequence[str]) -> list[Problem]:
    """What the trainer does not know in a space with mistakes of form, so that one look at it tells everything."""
    if any(re.search(r"(^|\.)(trainer|resources)\b", path) for path in told):
        return []  # then it is not known which trainer it is
    if not space.stages:
        return _unknown(space, told)
    found: list[Problem] = []
    for index, stage in enumerate(space.stages):
        own = [path.removeprefix(f"stages[{index}].") for path in told if path.startswith(f"stages[{index}].")]
        found += [_in_stage(problem, index, stage) for problem in _unknown(stage.space, own)]
    return list(dict.fromkeys(found))


def _unknown(space: Space, told: Sequence[str]) -> list[Problem]:
    try:
        description = get_backend(space.trainer.backend).describe(space.trainer)
    except InvalidConfigError as error:
        return list(placed(space, error.problems))
    return unknown_names(space, description.config, description.metrics, told)


def _resolve_stage(stage: Stage, document: dict[str, JsonValue], index: int, file: str) -> ResolvedSpace:
    """A stage, with its steps filled into the job's document."""
    written = document["stages"]
    assert isinstance(written, list)
    own = written[index]
    assert isinstance(own, dict)
    resolved = _resolve(stage.space, own, file, stage)
    return replace(resolved, stage=replace(stage, space=resolved.space), document=document)


def _resolve(space: Space, document: dict[str, JsonValue], file: str, stage: Stage | None = None) -> ResolvedSpace:
    try:
        description = get_backend(space.trainer.backend).describe(space.trainer)
    except InvalidConfigError as error:
        raise InvalidSpaceError(
            f"{file}: the trainer's configuration cannot be accepted: {error.message}",
            hint=error.hint,
            problems=placed(space, error.problems),
        ) from error
    steps = space.budget.steps or description.steps
    space = check_space(space, description.config, description.metrics, steps, description.unread)
    check_population(space, description.config, steps)
    if stage is not None:
        check_criteria(stage, description.metrics)
    budget = document["budget"]
    assert isinstance(budget, dict)
    document["budget"] = {**budget, "steps": steps}
    return ResolvedSpace(
        space=replace(space, budget=replace(space.budget, steps=steps)),
        base={**description.config, description.steps_path: steps},
        steps=steps,
        steps_path=description.steps_path,
        seed_path=description.seed_path,
        document=document,
        digest=_digest(document),
    )


def _in_stage(problem: Problem, index: int, stage: Stage) -> Problem:
    """A problem of a stage, under its path in the whole file."""
    at_top = problem.path.startswith("trainer.") and not any(problem.path.endswith(path) for path in stage.fixed)
    return problem if at_top else replace(problem, path=f"stages[{index}].{problem.path}")


def _digest(document: Mapping[str, JsonValue]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def resolve_document(document: object, name: str) -> ResolvedSpace:
    """Reads a space back from a job's record.

    Raises:
        InvalidSpaceError: If the backend no longer accepts it.
    """
    return resolve_space(json.dumps(document), name)
