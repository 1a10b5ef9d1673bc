"""From the text of a space file to everything a job needs to know about it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

from autotune.backends import get_backend
from autotune.errors import InvalidConfigError, InvalidSpaceError
from autotune.spec.check import check_space
from autotune.spec.loader import load_space
from autotune.spec.places import placed
from autotune.spec.types import Space
from autotune.spec.values import FlatConfig, JsonValue


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedSpace:
    """A space that was checked against its backend.

    Attributes:
        base: The complete configuration with the fixed overrides and the length of a trial, without searched values.
        steps: Training steps of a full trial.
        steps_path: The configuration's own path for ``steps``.
        seed_path: The configuration's own path for the seed.
        document: The space as plain JSON with ``budget.steps`` filled in; it resolves to the same again.
        digest: Hash of the document.
    """

    space: Space
    base: FlatConfig
    steps: int
    steps_path: str
    seed_path: str
    document: dict[str, JsonValue]
    digest: str


def resolve_space(source: str, file: str) -> ResolvedSpace:
    """Reads a space and checks it against the backend that it names.

    Raises:
        InvalidSpaceError: With every problem, each with its place in the file.
    """
    space = load_space(source, file=file)
    try:
        description = get_backend(space.trainer.backend).describe(space.trainer)
    except InvalidConfigError as error:
        raise InvalidSpaceError(
            f"{file}: the trainer's configuration cannot be accepted: {error.message}",
            hint=error.hint,
            problems=placed(space, error.problems),
        ) from error
    space = check_space(space, description.config, description.metrics, description.steps)
    steps = space.budget.steps or description.steps
    document = json.loads(json.dumps(dict(space.document)))
    document["budget"] = {**document["budget"], "steps": steps}
    return ResolvedSpace(
        space=replace(space, budget=replace(space.budget, steps=steps)),
        base={**description.config, description.steps_path: steps},
        steps=steps,
        steps_path=description.steps_path,
        seed_path=description.seed_path,
        document=document,
        digest=hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest(),
    )


def resolve_document(document: object, name: str) -> ResolvedSpace:
    """Reads a space back from a job's record.

    Raises:
        InvalidSpaceError: If the backend no longer accepts it.
    """
    return resolve_space(json.dumps(document), name)
