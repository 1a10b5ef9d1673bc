"""Checks a space against what its backend says about itself: parameters, metrics and steps that really exist."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from autotune.errors import Problem
from autotune.spec.aliases import ALIASES
from autotune.spec.configs import complete, start_params
from autotune.spec.domains import contains, describe_domain
from autotune.spec.expressions import Expression
from autotune.spec.feasible import survey
from autotune.spec.nearest import did_you_mean
from autotune.spec.places import place_of
from autotune.spec.plugin_pruners import pruner_kind
from autotune.spec.pruning import OptionKind
from autotune.spec.reader import Report, show
from autotune.spec.types import Choice, FloatRange, IntRange, Parameter, Space, Stage
from autotune.spec.values import FlatConfig, JsonValue

_NONE: Mapping[str, str] = MappingProxyType({})


def check_space(
    space: Space, base: FlatConfig, metrics: Mapping[str, str], steps: int, unread: Mapping[str, str] = _NONE
) -> Space:
    """Checks everything in a space that needs to know the trainer.

    Args:
        space: A loaded space.
        base: The trainer's complete configuration with the space's fixed overrides applied, flat.
        metrics: Metric name -> description.
        steps: Training steps of a full trial.
        unread: Path of each key that changes nothing -> the path whose value in `base` decides that.

    Returns:
        The space with whole numbers in choices and starts turned into fractions where the trainer wants those.

    Raises:
        InvalidSpaceError: With every problem, each at its place in the file.
    """
    report = Report()
    fitted = {path: _parameter(space, parameter, base, report) for path, parameter in space.search.items()}
    _unread(space, base, unread, report)
    _metrics(space, metrics, report)
    _steps(space, steps, report)
    if _names(space, base, report) and not report.problems:
        space = dataclasses.replace(space, search=fitted)
        _starts(space, base, report)
        _conditions(space, base, report)
    report.close(place_of(space, "")[0] or "space.yaml")
    return space


def unknown_names(space: Space, base: FlatConfig, metrics: Mapping[str, str], told: Iterable[str]) -> list[Problem]:
    """What a trainer does not know in a space that could only be read in part.

    Nothing is said about what was complained about already: it may only be unknown because it could not be read.

    Args:
        space: What was read of a space.
        base: The trainer's complete configuration, flat.
        metrics: Metric name -> description.
        told: Paths of what is known to be wrong.

    Returns:
        Problems of searched parameters and of metrics, each at its place in the file.
    """
    report = Report()
    for parameter in space.search.values():
        _parameter(space, parameter, base, report)
    _metrics(space, metrics, report)
    known = list(told)
    return [problem for problem in report.problems if not any(_is_near(problem.path, path) for path in known)]


def _is_near(path: str, told: str) -> bool:
    """Whether a complaint covers another: of one parameter, or anywhere in the same section."""
    if path.startswith("search."):
        return told == "search" or f"{told}.".startswith(f"{path}.")
    return re.split(r"[.\[]", path)[0] == re.split(r"[.\[]", told)[0]


def check_criteria(stage: Stage, metrics: Mapping[str, str]) -> None:
    """Checks that a trainer reports what the criteria of a stage read.

    Args:
        stage: A stage of a loaded space.
        metrics: Metric name -> description.

    Raises:
        InvalidSpaceError: With every problem, each at its place in the file.
    """
    report = Report()
    one = "pass[0]" not in stage.space.marks
    for index, criterion in enumerate(stage.criteria):
        path = "pass" if one else f"pass[{index}]"
        for metric in sorted({reading.metric for reading in criterion.readings.values()} - metrics.keys()):
            message = f"the trainer has no metric {metric!r}."
            _add(stage.space, report, path, message, did_you_mean(metric, metrics), value=True)
    report.close(place_of(stage.space, "")[0] or "space.yaml")


def _add(space: Space, report: Report, path: str, message: str, hint: str = "", *, value: bool = False) -> None:
    report.add(place_of(space, path, value=value), path, message, hint)


def _parameter(space: Space, parameter: Parameter, base: FlatConfig, report: Report) -> Parameter:
    path = f"search.{parameter.path}"
    if parameter.path not in base:
        inside = sorted(name for name in base if name.startswith(f"{parameter.path}."))
        message = f"unknown parameter {parameter.path!r}."
        hint = did_you_mean(parameter.path, [*base, *(short for short, full in ALIASES.items() if full in base)])
        if inside:
            message, hint = f"{parameter.path!r} is a group of keys.", f"Search one of: {', '.join(inside[:8])}."
        _add(space, report, path, message, hint)
        return parameter
    own = base[parameter.path]
    domain = parameter.domain
    wrong = _type_problem(domain, own)
    if wrong:
        message = f"the configuration has {show(own)} there, {wrong[0]}."
        _add(space, report, path, message, wrong[1], value=True)
    elif isinstance(domain, Choice) and isinstance(own, float):
        options = tuple(_fraction(option) for option in domain.options)
        return dataclasses.replace(parameter, domain=Choice(options=options), prior=_fraction(parameter.prior))
    return parameter


def _unread(space: Space, base: FlatConfig, unread: Mapping[str, str], report: Report) -> None:
    for path in space.search:
        decisive = unread.get(path)
        if decisive is not None and decisive not in space.search:
            message = f"nothing reads {path!r} while {decisive} is {show(base.get(decisive))}."
            _add(space, report, f"search.{path}", message, "Remove it: the sampler would learn from noise.")


def _type_problem(domain: FloatRange | IntRange | Choice, own: JsonValue) -> tuple[str, str] | None:
    """What does not fit and its fix; a null in the configuration says nothing about the type."""
    if own is None:
        return None
    if isinstance(domain, Choice):
        kind = _kind(own)
        odd = [option for option in domain.options if option is not None and not _fits(option, kind)]
        return (f"which {show(odd[0])} does not fit", f"Every choice must be {kind}.") if odd else None
    if isinstance(own, bool) or not isinstance(own, int | float):
        return f"which is {_kind(own)}, not a number", "Write choice: [...] instead of a range."
    if isinstance(domain, FloatRange) and isinstance(own, int):
        return "which is a whole number", "Write int: [...] instead of float: [...]."
    return None


def _kind(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int):
        return "a whole number"
    if isinstance(value, float):
        return "a number"
    return "a text" if isinstance(value, str) else "a list"


def _fits(option: JsonValue, kind: str) -> bool:
    return _kind(option) == kind or (kind == "a number" and _kind(option) == "a whole number")


def _fraction(value: JsonValue) -> JsonValue:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _metrics(space: Space, metrics: Mapping[str, str], report: Report) -> None:
    goals = [one.metric for one in space.objective.each]
    used = [(f"objectives[{index}].metric", metric) for index, metric in enumerate(goals)]
    if "objectives" not in space.marks:
        used = [("objective.metric", space.objective.metric)]
    used += [(f"constraints[{index}]", constraint.metric) for index, constraint in enumerate(space.constraints)]
    for index, spec in enumerate(space.prune):
        kinds = pruner_kind(spec.name).options
        used += [
            (f"prune[{index}].{spec.name}.{key}", str(value))
            for key, value in spec.options.items()
            # The objective's own metric is named where the objective is.
            if kinds[key].kind is OptionKind.METRIC and value != space.objective.metric
        ]
    for path, metric in used:
        if metric not in metrics:
            message = f"the trainer has no metric {metric!r}."
            _add(space, report, path, message, did_you_mean(metric, metrics), value=True)


def _steps(space: Space, steps: int, report: Report) -> None:
    for index, spec in enumerate(space.prune):
        first = spec.options.get("min_steps")
        if isinstance(first, int) and first >= steps:
            path = f"prune[{index}].{spec.name}.min_steps"
            message = f"{spec.name} looks from step {first} on, but a trial has {steps} steps."
            _add(space, report, path, message, f"Lower min_steps below {steps} or raise budget.steps.", value=True)


def _names(space: Space, base: FlatConfig, report: Report) -> bool:
    """Whether all names in conditions exist."""
    conditions: list[tuple[str, Expression]] = [
        (f"require[{index}]", condition) for index, condition in enumerate(space.require)
    ]
    conditions += [(f"search.{p.path}.when", p.when) for p in space.search.values() if p.when is not None]
    before = len(report.problems)
    for path, condition in conditions:
        for name in sorted(condition.names - base.keys()):
            hint = did_you_mean(name, [*base, *(short for short, full in ALIASES.items() if full in base)])
            _add(space, report, path, f"the condition reads {name!r}, which does not exist.", hint, value=True)
    return len(report.problems) == before


def _starts(space: Space, base: FlatConfig, report: Report) -> None:
    for index, start in enumerate(space.start_from):
        if start.tried:
            continue
        path = f"start_from[{index}]"
        params = start_params(space, base, start)
        for name, value in params.items():
            domain = space.search[name].domain
            if not contains(domain, value):
                message = (
                    f"{name} is {show(value)} in the configuration, outside its domain: {describe_domain(domain)}."
                )
                _add(space, report, path, message, "Widen the domain, give it a prior, or name a value here.")
        config = complete(space, base, params)
        for condition in space.require:
            if not condition.holds(config):
                message = f"breaks the condition {condition.text!r}: {_reads(condition.names, config)}."
                _add(space, report, path, message, "Change the values or the condition.")


def _conditions(space: Space, base: FlatConfig, report: Report) -> None:
    conditional = [p for p in space.search.values() if p.when is not None]
    if not space.require and not conditional:
        return
    found = survey(space, base)
    tried = f"all {found.tried}" if found.exhaustive else f"{found.tried} random"
    never = [index for index, count in enumerate(found.held) if count == 0]
    for index in never:
        condition = space.require[index]
        why = f" {found.errors[index]}" if index in found.errors else ""
        message = f"{condition.text!r} never holds in {tried} configurations of the search, for example with "
        message += f"{_reads(condition.names, found.example)}.{why}"
        _add(space, report, f"require[{index}]", message, "Loosen it or widen the ranges it reads.")
    if not never and space.require and not found.together:
        message = f"the conditions never hold all together in {tried} configurations of the search."
        _add(space, report, "require", message, "Loosen one of them or widen the ranges they read.")
    for parameter in conditional:
        if parameter.when is not None and parameter.path not in found.active:
            message = f"{parameter.when.text!r} never holds in {tried} configurations, so it would never be searched."
            hint = f"It was for example {_reads(parameter.when.names, found.example)}."
            _add(space, report, f"search.{parameter.path}.when", message, hint, value=True)


def _reads(names: Iterable[str], config: FlatConfig) -> str:
    return ", ".join(f"{name} = {show(config.get(name))}" for name in sorted(names)) or "no parameter at all"
