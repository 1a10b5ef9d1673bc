"""What can be asked of a domain: does it hold a value, what does it say in words, draw one, list them."""

from __future__ import annotations

import math
import random

from autotune.spec.types import Choice, Domain, FloatRange, IntRange
from autotune.spec.values import JsonValue


def contains(domain: Domain, value: JsonValue) -> bool:
    """Whether a value lies in a domain; ``1`` and ``1.0`` are the same number, ``1`` and ``true`` are not."""
    if isinstance(domain, Choice):
        return any(same(option, value) for option in domain.options)
    if isinstance(value, bool) or not isinstance(value, int | float) or not domain.low <= value <= domain.high:
        return False
    if isinstance(domain, IntRange):
        return value == int(value) and (int(value) - domain.low) % domain.step == 0
    if domain.step is None:
        return True
    position = (value - domain.low) / domain.step
    return abs(position - round(position)) < 1e-8


def nearest(domain: Domain, value: JsonValue) -> JsonValue:
    """The value of the domain that lies closest: itself where it is inside; ``None`` where nothing compares with it."""
    if contains(domain, value):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(domain, Choice):
        numbers = [o for o in domain.options if isinstance(o, int | float) and not isinstance(o, bool)]
        return min(numbers, key=lambda option: abs(option - value), default=None)
    inside = min(max(value, domain.low), domain.high)
    if domain.step is not None:
        places = min(round((inside - domain.low) / domain.step), int(size(domain)) - 1)
        inside = min(domain.low + places * domain.step, domain.high)  # 0.1 + 4 * 0.05 is above 0.3
    return round(inside) if isinstance(domain, IntRange) else float(inside)


def same(left: JsonValue, right: JsonValue) -> bool:
    """Equality of JSON values: numbers by value, truth values only with truth values."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def describe_domain(domain: Domain) -> str:
    """The domain in words, for example ``1e-07 to 1e-05, log`` or ``one of 32, 64, 128``."""
    match domain:
        case Choice():
            return "one of " + ", ".join(_word(option) for option in domain.options)
        case IntRange():
            step = f", in steps of {domain.step}" if domain.step != 1 else ""
            return f"{domain.low} to {domain.high}{', log' if domain.log else ''}{step}"
        case FloatRange():
            step = f", in steps of {domain.step:g}" if domain.step is not None else ""
            return f"{domain.low:g} to {domain.high:g}{', log' if domain.log else ''}{step}"


def values(domain: Domain) -> list[JsonValue] | None:
    """All values of a domain, ``None`` where they cannot be listed."""
    match domain:
        case Choice():
            return list(domain.options)
        case IntRange():
            return list(range(domain.low, domain.high + 1, domain.step)) if size(domain) <= 1e5 else None
        case FloatRange():
            if domain.step is None or size(domain) > 1e5:
                return None
            return [domain.low + index * domain.step for index in range(int(size(domain)))]


def size(domain: Domain) -> float:
    """Number of values, infinite for a real range."""
    match domain:
        case Choice():
            return len(domain.options)
        case IntRange():
            return (domain.high - domain.low) // domain.step + 1
        case FloatRange():
            if domain.step is None:
                return math.inf
            return math.floor((domain.high - domain.low) / domain.step + 1e-8) + 1


def draw(domain: Domain, rng: random.Random) -> JsonValue:
    """One random value, uniform on the domain's own scale."""
    match domain:
        case Choice():
            return rng.choice(domain.options)
        case IntRange() if domain.log:
            value = math.exp(rng.uniform(math.log(domain.low - 0.5), math.log(domain.high + 0.5)))
            return min(max(round(value), domain.low), domain.high)
        case IntRange():
            return domain.low + domain.step * rng.randrange((domain.high - domain.low) // domain.step + 1)
        case FloatRange() if domain.log:
            value = math.exp(rng.uniform(math.log(domain.low), math.log(domain.high)))
            return min(max(value, domain.low), domain.high)
        case FloatRange() if domain.step is not None:
            return domain.low + domain.step * rng.randrange(int(size(domain)))
        case FloatRange():
            return rng.uniform(domain.low, domain.high)


def _word(value: JsonValue) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
