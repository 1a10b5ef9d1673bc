"""The trials of a study whose space was changed: which of them are trials of the new space too."""

from __future__ import annotations

from dataclasses import replace

from autotune.search.finalists import is_finalist
from autotune.search.types import Trial
from autotune.spec.configs import ordered
from autotune.spec.domains import contains
from autotune.spec.types import Space
from autotune.spec.values import FlatConfig, JsonValue


def remapped(space: Space, base: FlatConfig, trial: Trial, seed_path: str = "") -> Trial | None:
    """The trial as one of the new space, with the values that it had for the parameters that are searched now.

    It is one if the new space could have proposed exactly what it ran: every active parameter's value lies in its
    domain, and everything else is as the configuration has it. ``None`` if not: the sampler is told nothing of it.

    Args:
        space: The new space.
        base: The complete configuration without searched values, flat.
        trial: A trial of the old space.
        seed_path: The configuration's own path for the seed, in which the finalists' fresh runs differ.
    """
    params: dict[str, JsonValue] = {}
    config = dict(base)
    for parameter in ordered(space.search):
        if parameter.when is not None and not parameter.when.holds(config):
            continue
        value = trial.config.get(parameter.path)
        if not contains(parameter.domain, value):
            return None
        params[parameter.path] = config[parameter.path] = value
    ran = dict(trial.config)
    if is_finalist(trial) and seed_path in config:
        ran[seed_path] = config[seed_path]
    return replace(trial, params=params) if ran == config else None
