"""Can the conditions of a space ever hold? Tries all combinations where they are few, random ones else."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from autotune.spec.configs import ordered
from autotune.spec.domains import draw, size, values
from autotune.spec.expression_nodes import ExpressionError
from autotune.spec.expressions import Expression
from autotune.spec.types import Parameter, Space
from autotune.spec.values import FlatConfig, JsonValue

EXHAUSTIVE = 20_000
DRAWS = 4_000


@dataclass(kw_only=True, slots=True)
class Survey:
    """What was found by trying.

    Attributes:
        tried: Number of configurations.
        exhaustive: Whether these were all there are.
        held: For each condition of ``require`` how often it held.
        together: How often all held at once.
        errors: Index of a condition -> why it had no value, the first time.
        active: Paths of conditional parameters that were active at least once.
        example: The values that the conditions read, in the last configuration tried.
    """

    exhaustive: bool
    held: list[int]
    tried: int = 0
    together: int = 0
    errors: dict[int, str] = field(default_factory=dict)
    active: set[str] = field(default_factory=set)
    example: dict[str, JsonValue] = field(default_factory=dict)


def survey(space: Space, base: FlatConfig) -> Survey:
    """Tries configurations of the space against ``require`` and every ``when``; the same ones each time."""
    conditions = [*space.require, *(p.when for p in space.search.values() if p.when is not None)]
    names = {name for condition in conditions for name in condition.names}
    # Conditional parameters take part even if nothing reads them, to see whether they ever exist; they need no values.
    order = ordered(space.search)
    read = [parameter for parameter in order if parameter.path in names]
    needed = {name: base[name] for name in names if name in base}
    found = Survey(exhaustive=math.prod(size(p.domain) for p in read) <= EXHAUSTIVE, held=[0] * len(space.require))
    for params in _combinations(read) if found.exhaustive else _draws(read):
        config = dict(needed)
        for parameter in order:
            if parameter.when is not None and not parameter.when.holds(config):
                continue
            if parameter.when is not None:
                found.active.add(parameter.path)
            if parameter.path in params:
                config[parameter.path] = params[parameter.path]
        _judge(found, space.require, config)
    return found


def _judge(found: Survey, conditions: Sequence[Expression], config: dict[str, JsonValue]) -> None:
    found.tried += 1
    found.example = config
    holds = []
    for index, condition in enumerate(conditions):
        try:
            holds.append(bool(condition.evaluate(config)))
        except ExpressionError as error:
            holds.append(False)
            found.errors.setdefault(index, error.message)
        found.held[index] += holds[-1]
    found.together += all(holds)


def _combinations(read: Sequence[Parameter]) -> Iterator[FlatConfig]:
    options = [values(parameter.domain) or [] for parameter in read]
    for chosen in itertools.product(*options):
        yield {parameter.path: value for parameter, value in zip(read, chosen, strict=True)}


def _draws(read: Sequence[Parameter]) -> Iterator[FlatConfig]:
    rng = random.Random(0)
    for _ in range(DRAWS):
        yield {parameter.path: draw(parameter.domain, rng) for parameter in read}
