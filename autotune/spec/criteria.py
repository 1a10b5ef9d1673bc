"""What a stage must reach: conditions over the numbers that its winner measured.

An example is ``perf/tokens_per_s >= 1.3 * default``. The grammar is that of all conditions; only the names differ.
A name is ``[WHO.][WHAT.]METRIC``:

- WHO is left out for the stage's winner, ``default`` for the default configuration as this stage measured it, or
  ``previous`` for the winner of the stage before, as that stage measured it. ``default`` or ``previous`` alone stands
  for the same reading of it as the one metric that the condition reads of the winner.
- WHAT is left out for the mean of the last reports, or ``min``, ``max``, ``mean`` of all of them, or ``std``, the
  standard deviation over their second half (how unsteady a curve is once it has settled).
- A slash belongs to a metric's name where letters stand right beside it; a division has blanks around it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from autotune.errors import Problem
from autotune.spec.expression_nodes import ExpressionError
from autotune.spec.expressions import Expression, parse

_SLASH = "\u01c0"
"""Stands for the slash of a metric while the condition is parsed: a letter of the same width that nobody types."""
_IN_A_NAME = re.compile(r"(?<=[A-Za-z0-9_])/(?=[A-Za-z_])")


class Who(StrEnum):
    """Whose number it is."""

    WINNER = "winner"
    DEFAULT = "default"
    PREVIOUS = "previous"


class What(StrEnum):
    """How a curve becomes a number."""

    LAST = "last"
    MIN = "min"
    MAX = "max"
    MEAN = "mean"
    STD = "std"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One number that a criterion reads."""

    who: Who
    what: What
    metric: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """A condition that a stage's winner must meet.

    Attributes:
        text: The criterion as it was written.
        expression: The condition over the names.
        readings: Name in the condition -> what it reads.
    """

    text: str
    expression: Expression
    readings: Mapping[str, Reading]


def parse_criterion(text: str) -> Criterion:
    """Reads a criterion.

    Raises:
        ExpressionError: If it cannot be read; ``problems[0].column`` says where, counted from 1.
    """
    try:
        expression = parse(_IN_A_NAME.sub(_SLASH, text), lambda name: name.replace(_SLASH, "/"))
    except ExpressionError as error:
        raise _with_slashes(error) from None
    own = {name: _reading(name) for name in expression.names if name not in (Who.DEFAULT, Who.PREVIOUS)}
    alone = [Who(name) for name in expression.names if name in (Who.DEFAULT, Who.PREVIOUS)]
    winners = [reading for reading in own.values() if reading.who is Who.WINNER]
    if alone and len(winners) != 1:
        message = f"{alone[0]!s} alone stands for the one metric that is read of the winner, but {len(winners)} are."
        hint = f"Write {alone[0]!s} with its metric, for example {alone[0]!s}.perf/tokens_per_s"
        raise ExpressionError(message, hint=hint, problems=[Problem(message=message, hint=hint, column=1)])
    readings = dict(own)
    for who in alone:
        readings[who] = Reading(who=who, what=winners[0].what, metric=winners[0].metric)
    return Criterion(text=text.strip(), expression=expression, readings=readings)


def _reading(name: str) -> Reading:
    who, what = Who.WINNER, What.LAST
    head, dot, rest = name.partition(".")
    if dot and head in (Who.DEFAULT, Who.PREVIOUS):
        who, name = Who(head), rest
        head, dot, rest = name.partition(".")
    if dot and head in [*What]:
        what, name = What(head), rest
    return Reading(who=who, what=what, metric=name)


def _with_slashes(error: ExpressionError) -> ExpressionError:
    """The error in the words of the file."""
    problems = [
        Problem(message=p.message.replace(_SLASH, "/"), hint=p.hint.replace(_SLASH, "/"), column=p.column)
        for p in error.problems
    ]
    return ExpressionError(error.message.replace(_SLASH, "/"), hint=error.hint.replace(_SLASH, "/"), problems=problems)
