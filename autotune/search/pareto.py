"""Several objectives at once: who is beaten by nobody, and in which order the others follow.

Non-dominated sorting as in NSGA-II (Deb et al. 2002), and within one front the order of an epsilon-net: the compromise
first, then again and again the one that is farthest from all before it. Cutting such a list anywhere leaves a front
that is covered evenly, which is what Schmucker et al. 2021, "Multi-objective Asynchronous Successive Halving"
(arXiv:2106.12639, section 4.2), found best for deciding at a rung.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = tuple[float, ...]
"""The objectives of one trial, each turned so that more is better; ``-inf`` where one was not finite."""


def dominates(first: Vector, second: Vector) -> bool:
    """Whether the first is nowhere worse and somewhere better."""
    return first != second and all(a >= b for a, b in zip(first, second, strict=True))


def fronts(vectors: Mapping[int, Vector]) -> list[list[int]]:
    """The numbers by front: the first is beaten by nobody, the second only by the first, and so on.

    Within a front by number. Who has an objective that was not finite is left out.
    """
    numbers = sorted(number for number, vector in vectors.items() if all(math.isfinite(value) for value in vector))
    if not numbers:
        return []
    values = np.array([vectors[number] for number in numbers])
    beats = _beats(values)
    left = np.ones(len(numbers), dtype=bool)
    found: list[list[int]] = []
    while left.any():
        front = left & ~(beats & left[:, None]).any(axis=0)
        found.append([numbers[place] for place in np.flatnonzero(front)])
        left = left & ~front
    return found


def order(vectors: Mapping[int, Vector]) -> list[int]:
    """All numbers, best first: front by front, within one the compromise and then the farthest from all before."""
    finite = [vector for vector in vectors.values() if all(math.isfinite(value) for value in vector)]
    if not finite:
        return []
    low, high = np.min(finite, axis=0), np.max(finite, axis=0)
    span = np.where(high > low, high - low, 1.0)
    found: list[int] = []
    for front in fronts(vectors):
        found += _spread_out(front, (np.array([vectors[number] for number in front]) - low) / span)
    return found


def positions(vectors: Mapping[int, Vector]) -> dict[int, float]:
    """A score for each: minus its place in the order, from 0; ``-inf`` where an objective was not finite."""
    places = {number: -float(place) for place, number in enumerate(order(vectors))}
    return {number: places.get(number, -math.inf) for number in vectors}


def ranks(vectors: Mapping[int, Vector]) -> dict[int, float]:
    """Another score: minus the number of the front, from 0, so that nobody on a front stands before the others."""
    found = {number: -float(place) for place, front in enumerate(fronts(vectors)) for number in front}
    return {number: found.get(number, -math.inf) for number in vectors}


def _beats(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """``[i, j]``: whether ``i`` dominates ``j``."""
    at_least = np.all(values[:, None, :] >= values[None, :, :], axis=-1)
    return np.asarray(at_least & np.any(values[:, None, :] > values[None, :, :], axis=-1))


def _spread_out(front: Sequence[int], scaled: NDArray[np.float64]) -> list[int]:
    """The members of a front, the one with the largest sum of scaled objectives first; the earlier of equals."""
    first = int(np.argmax(np.round(scaled.sum(axis=1), 12)))
    chosen = [first]
    distance = np.linalg.norm(scaled - scaled[first], axis=1)
    while len(chosen) < len(front):
        distance[chosen] = -1.0
        following = int(np.argmax(distance))
        chosen.append(following)
        distance = np.minimum(distance, np.linalg.norm(scaled - scaled[following], axis=1))
    return [front[place] for place in chosen]
