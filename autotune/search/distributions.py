"""Between the domains of a space file and Optuna's distributions.

Optuna's categorical choices hold only ``None``, bool, int, float and str, and treat ``1`` and ``True`` as the same.
Choices are therefore handed over as JSON text unless every option is a plain string.
"""

from __future__ import annotations

import json
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from autotune.spec.types import Choice, Domain, FloatRange, IntRange
from autotune.spec.values import JsonValue


def to_distribution(domain: Domain) -> BaseDistribution:
    """The Optuna distribution with the same values."""
    match domain:
        case FloatRange():
            return FloatDistribution(domain.low, domain.high, log=domain.log, step=domain.step)
        case IntRange():
            return IntDistribution(domain.low, domain.high, log=domain.log, step=domain.step)
        case Choice():
            return CategoricalDistribution([encode(domain, option) for option in domain.options])


def encode(domain: Domain, value: JsonValue) -> Any:  # noqa: ANN401  Optuna's own parameter type
    """What Optuna stores for a value of a space file."""
    if isinstance(domain, Choice) and not _plain(domain):
        return json.dumps(value, sort_keys=True)
    return value


def decode(domain: Domain, value: Any) -> JsonValue:  # noqa: ANN401  Optuna's own parameter type
    """The value of a space file behind what Optuna stores."""
    match domain:
        case Choice() if not _plain(domain):
            return next(option for option in domain.options if encode(domain, option) == value)
        case IntRange():
            return int(value)
        case FloatRange():
            return float(value)
        case _:
            return str(value)


def suggest(trial: optuna.Trial, name: str, domain: Domain) -> JsonValue:
    """Asks an Optuna trial for a value."""
    match domain:
        case FloatRange():
            return trial.suggest_float(name, domain.low, domain.high, log=domain.log, step=domain.step)
        case IntRange():
            return trial.suggest_int(name, domain.low, domain.high, log=domain.log, step=domain.step)
        case Choice():
            options = [encode(domain, option) for option in domain.options]
            return decode(domain, trial.suggest_categorical(name, options))


def _plain(domain: Choice) -> bool:
    return all(isinstance(option, str) for option in domain.options)
