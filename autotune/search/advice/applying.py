"""Advice as a configuration: what of its changes a search space lets a trial try."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.search.advice.base import Advice, Change
from autotune.spec.domains import nearest, same
from autotune.spec.types import Choice, Domain
from autotune.spec.values import FlatConfig, JsonValue


def changed(advice: Advice, params: FlatConfig, domains: Mapping[str, Domain]) -> FlatConfig | None:
    """The searched parameters with the advice's changes.

    A change of a parameter that is not searched is left out; one that goes beyond a range ends at its edge.

    Args:
        advice: What a rule has found.
        params: The searched parameters of the trial that it was found in.
        domains: Path -> domain of the searched parameters.

    Returns:
        ``None`` when the space leaves nothing of the changes.
    """
    searched = [change for change in advice.changes if change.path in domains]
    values = {change.path: _reached(change, domains[change.path]) for change in searched}
    new = {path: value for path, value in values.items() if value is not None and not same(params.get(path), value)}
    return {**params, **new} if new else None


def _reached(change: Change, domain: Domain) -> JsonValue:
    """The domain's value closest to the proposal that is a step its way; ``None`` where there is none."""
    before, after = _number(change.before), _number(change.after)
    if before is None or after is None:
        return nearest(domain, change.after)
    if isinstance(domain, Choice):
        ahead = [option for option in map(_number, domain.options) if option is not None]
        ahead = [option for option in ahead if (option - before) * (after - before) > 0]
        return min(ahead, key=lambda option: abs(option - after), default=None)
    value = _number(nearest(domain, after))
    return value if value is not None and (value - before) * (after - before) > 0 else None


def _number(value: JsonValue) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
