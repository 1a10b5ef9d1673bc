"""Every combination of a few values of each parameter, in an order that spreads over the whole grid early."""

from __future__ import annotations

import math
from collections.abc import Iterator

from autotune.search.seeds import child_seed
from autotune.spec.domains import size, values
from autotune.spec.types import Choice, Domain, FloatRange, IntRange, Parameter
from autotune.spec.values import JsonValue

LEVELS = 5
"""Values of a range without steps, ends included; a list or a stepped range has all of its own up to this many."""
_GOLDEN = (math.sqrt(5) - 1) / 2


def levels(domain: Domain) -> list[JsonValue]:
    """The values of a parameter on the grid: all of a choice; of a range at most ``LEVELS``, even on its own scale."""
    if isinstance(domain, Choice) or size(domain) <= LEVELS:
        return values(domain) or []
    points = [index / (LEVELS - 1) for index in range(LEVELS)]
    return list(dict.fromkeys(_at(domain, point) for point in points))


def grid(parameters: tuple[Parameter, ...], seed: int) -> Iterator[dict[str, JsonValue]]:
    """All points of the grid, each once.

    The order is the index times a number near the golden section of the grid's size and without a common factor with
    it, modulo the size: neighbours in time lie far apart, and no table of the whole grid is kept.
    """
    axes = [levels(parameter.domain) for parameter in parameters]
    total = math.prod(len(axis) for axis in axes)
    stride = max(1, round(total * _GOLDEN))
    while math.gcd(stride, total) != 1:
        stride += 1
    first = child_seed(seed, "grid") % total
    for turn in range(total):
        place = (first + turn * stride) % total
        point: dict[str, JsonValue] = {}
        for parameter, axis in zip(parameters, axes, strict=True):
            place, index = divmod(place, len(axis))
            point[parameter.path] = axis[index]
        yield point


def _at(domain: FloatRange | IntRange, point: float) -> JsonValue:
    """The value at a place between 0 and 1 of a range."""
    if domain.log:
        value = math.exp(math.log(domain.low) + point * (math.log(domain.high) - math.log(domain.low)))
    else:
        value = domain.low + point * (domain.high - domain.low)
    value = min(max(value, domain.low), domain.high)
    if domain.step is not None:
        value = domain.low + round((value - domain.low) / domain.step) * domain.step
    return int(value) if isinstance(domain, IntRange) else value
