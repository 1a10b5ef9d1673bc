"""Reads a configuration that a person wants a running job to try."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.errors import InvalidSpaceError, Problem
from autotune.spec.aliases import resolve
from autotune.spec.configs import start_params
from autotune.spec.domains import contains, describe_domain
from autotune.spec.expression_nodes import ExpressionError
from autotune.spec.nearest import did_you_mean
from autotune.spec.types import FloatRange, Space, Start
from autotune.spec.values import FlatConfig, JsonValue


def wanted_start(space: Space, base: FlatConfig, label: str, params: Mapping[str, JsonValue]) -> Start:
    """The start that these values of searched parameters are; what is not named keeps the configuration's own value.

    Args:
        space: A loaded space.
        base: The complete configuration without the searched parameters, flat.
        label: What the trial's source will be.
        params: Full path or short name -> value.

    Raises:
        InvalidSpaceError: With every problem: not a searched parameter, outside its domain, an inactive parameter, or
            a ``require`` condition that does not hold.
    """
    values: dict[str, JsonValue] = {}
    problems: list[Problem] = []
    for name, value in params.items():
        path = resolve(name)
        parameter = space.search.get(path)
        if parameter is None:
            message = f"{name!r} is not a searched parameter of this job."
            problems.append(Problem(path=name, message=message, hint=did_you_mean(path, space.search)))
        elif not contains(parameter.domain, value):
            message = f"{value!r} does not lie in the domain of {path}: {describe_domain(parameter.domain)}."
            problems.append(Problem(path=name, message=message, hint="Change the value, or the space of a paused job."))
        else:
            values[path] = float(str(value)) if isinstance(parameter.domain, FloatRange) else value
    start = Start(label=label, values=values)
    if not problems:
        problems = _contradictions(space, base, start)
    if problems:
        raise InvalidSpaceError(
            f"this configuration cannot be tried: {'; '.join(str(problem) for problem in problems)}",
            hint=problems[0].hint,
            problems=problems,
        )
    return start


def _contradictions(space: Space, base: FlatConfig, start: Start) -> list[Problem]:
    completed = start_params(space, base, start)
    problems = [
        Problem(path=path, message="this parameter's `when` does not hold for the other values.", hint="Leave it out.")
        for path in start.values
        if path not in completed
    ]
    config = {**base, **completed}
    for condition in space.require:
        try:
            holds = condition.holds(config)
        except ExpressionError as error:
            problems.append(Problem(path="require", message=f"{condition.text!r} has no value: {error.message}"))
            continue
        if not holds:
            read = ", ".join(f"{name} = {config.get(name)}" for name in sorted(condition.names))
            problems.append(Problem(path="require", message=f"{condition.text!r} does not hold ({read})."))
    return problems
