"""The tree of a parsed condition and its evaluation: Kleene logic over Python's arithmetic and comparisons."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from autotune.errors import UsageError
from autotune.spec.values import FlatConfig, JsonValue

MAX_BITS = 1024
"""A whole number that needs more bits than this is refused instead of computed with."""

Number: TypeAlias = int | float
Ordered = TypeVar("Ordered", str, float)


class ExpressionError(UsageError):
    """A condition cannot be read or has no value; ``problems[0].column`` is where, counted from 1."""


class Unknown:
    """The value of a name that the configuration does not hold; there is one instance, ``UNKNOWN``."""


UNKNOWN = Unknown()
Value: TypeAlias = JsonValue | Unknown

ARITHMETIC: Mapping[str, Callable[[Number, Number], Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Literal:
    """A number, a text, ``true``, ``false``, ``null``, or a list of those on the right of ``in``."""

    value: bool | int | float | str | tuple[JsonValue, ...] | None

    def evaluate(self, values: FlatConfig) -> Value:  # noqa: ARG002 - one signature for all nodes
        """The literal itself."""
        return list(self.value) if isinstance(self.value, tuple) else self.value


@dataclass(frozen=True, kw_only=True, slots=True)
class Name:
    """A dotted path of the configuration."""

    path: str

    def evaluate(self, values: FlatConfig) -> Value:
        """The value at the path, ``UNKNOWN`` where the configuration does not hold it."""
        return values.get(self.path, UNKNOWN)


@dataclass(frozen=True, kw_only=True, slots=True)
class Negation:
    """``not x`` or ``-x``."""

    symbol: str
    operand: Node

    def evaluate(self, values: FlatConfig) -> Value:
        """Unknown stays unknown."""
        value = self.operand.evaluate(values)
        if isinstance(value, Unknown):
            return UNKNOWN
        return not value if self.symbol == "not" else -_number(value, "-")


@dataclass(frozen=True, kw_only=True, slots=True)
class Arithmetic:
    """Two numbers and one of ``+ - * / // %``."""

    symbol: str
    left: Node
    right: Node

    def evaluate(self, values: FlatConfig) -> Value:
        """Unknown when a side is unknown."""
        left, right = self.left.evaluate(values), self.right.evaluate(values)
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return UNKNOWN
        first, second = _number(left, self.symbol), _number(right, self.symbol)
        try:
            result = ARITHMETIC[self.symbol](first, second)
        except ZeroDivisionError:
            raise ExpressionError(f"{first} {self.symbol} {second} divides by zero.") from None
        except OverflowError:
            raise ExpressionError(f"{first} {self.symbol} {second} is too large for a number.") from None
        if isinstance(result, int) and result.bit_length() > MAX_BITS:
            raise ExpressionError(f"the result of {self.symbol!r} needs more than {MAX_BITS} bits.")
        return result


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A chain such as ``a < b <= c``; each link compares its neighbours."""

    first: Node
    links: tuple[tuple[str, Node], ...]

    def evaluate(self, values: FlatConfig) -> Value:
        """False as soon as one link is false, else unknown when one is unknown, else true."""
        left = self.first.evaluate(values)
        unknown = False
        for symbol, node in self.links:
            right = node.evaluate(values)
            if isinstance(left, Unknown) or isinstance(right, Unknown):
                unknown = True
            elif not _compare(symbol, left, right):
                return False
            left = right
        return UNKNOWN if unknown else True


@dataclass(frozen=True, kw_only=True, slots=True)
class Junction:
    """``a and b and ...`` or ``a or b or ...``; like Python's, its value is the operand that decided."""

    symbol: str
    operands: tuple[Node, ...]

    def evaluate(self, values: FlatConfig) -> Value:
        """The first deciding operand, else unknown when one is unknown, else the last."""
        value: Value = None
        unknown = False
        for node in self.operands:
            value = node.evaluate(values)
            if isinstance(value, Unknown):
                unknown = True
            elif bool(value) == (self.symbol == "or"):
                return value
        return UNKNOWN if unknown else value


Node: TypeAlias = Literal | Name | Negation | Arithmetic | Comparison | Junction


def _number(value: JsonValue, symbol: str) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ExpressionError(f"{symbol!r} needs numbers, got {value!r}.")
    return value


def _compare(symbol: str, left: JsonValue, right: JsonValue) -> bool:
    if symbol == "==":
        return left == right
    if symbol == "!=":
        return left != right
    if symbol in ("in", "not in"):
        options = right if isinstance(right, list) else [right]
        return (left in options) == (symbol == "in")
    if isinstance(left, str) and isinstance(right, str):
        return _ordered(symbol, left, right)
    if isinstance(left, int | float) and isinstance(right, int | float):
        return _ordered(symbol, left, right)
    raise ExpressionError(f"{left!r} {symbol} {right!r} compares two things that have no order.")


def _ordered(symbol: str, left: Ordered, right: Ordered) -> bool:
    if symbol == "<":
        return left < right
    if symbol == "<=":
        return left <= right
    if symbol == ">":
        return left > right
    return left >= right
