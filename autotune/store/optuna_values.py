"""Our parameters, states and verdicts in Optuna's words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState as OptunaState

from autotune.search.types import Trial
from autotune.spec.types import Choice, FloatRange, Parameter
from autotune.spec.values import JsonValue
from autotune.states import TrialState
from autotune.store import clean

Scalar = bool | int | float | str | None
VIOLATED = 1e100
"""Stands for a violation that was not finite; JSON in a browser knows no infinity."""
INFEASIBLE_KEY = "the configuration can work"

_STATES: Mapping[TrialState, OptunaState] = {
    TrialState.QUEUED: OptunaState.WAITING,
    TrialState.RUNNING: OptunaState.RUNNING,
    TrialState.PAUSED: OptunaState.RUNNING,
    TrialState.COMPLETED: OptunaState.COMPLETE,
    TrialState.PRUNED: OptunaState.PRUNED,
    TrialState.INFEASIBLE: OptunaState.PRUNED,
    TrialState.FAILED: OptunaState.FAIL,
    TrialState.CANCELLED: OptunaState.FAIL,
}


def state(trial: Trial) -> OptunaState:
    """Optuna's state for a trial; one that completed without a finite objective counts as failed there."""
    if trial.state is TrialState.COMPLETED and clean.number(trial.value) is None:
        return OptunaState.FAIL
    return _STATES[trial.state]


def suggestions(
    parameters: Mapping[str, Parameter], params: Mapping[str, JsonValue]
) -> tuple[dict[str, Scalar], dict[str, BaseDistribution]]:
    """A trial's values and distributions as Optuna can hold them; values that it cannot hold at all are left out.

    A number outside its range (a start that somebody gave) widens the range for this trial only, which Optuna allows.
    """
    values: dict[str, Scalar] = {}
    distributions: dict[str, BaseDistribution] = {}
    for path, value in params.items():
        parameter = parameters.get(path)
        if parameter is None:
            continue
        domain = parameter.domain
        if isinstance(domain, Choice):
            options = [_scalar(option, domain) for option in domain.options]
            chosen = _scalar(value, domain)
            if chosen in options:
                values[path], distributions[path] = chosen, CategoricalDistribution(options)
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            continue
        if isinstance(domain, FloatRange):
            low, high = min(domain.low, value), max(domain.high, value)
            if domain.log and low <= 0:
                continue
            step = domain.step if (low, high) == (domain.low, domain.high) else None
            values[path], distributions[path] = float(value), FloatDistribution(low, high, log=domain.log, step=step)
        elif value == int(value):
            whole = int(value)
            bottom, top = min(domain.low, whole), max(domain.high, whole)
            if domain.log and bottom <= 0:
                continue
            step = domain.step if (bottom, top) == (domain.low, domain.high) and not domain.log else 1
            values[path], distributions[path] = whole, IntDistribution(bottom, top, log=domain.log, step=step)
    return values, distributions


def constraints(trial: Trial) -> dict[str, float]:
    """Constraint -> violation (<= 0 holds) for a trial that has its verdict; an infeasible one violates one more."""
    found = {
        text: VIOLATED if clean.number(violation) is None else violation for text, violation in trial.violations.items()
    }
    if trial.state is TrialState.INFEASIBLE:
        found[INFEASIBLE_KEY] = 1.0
    return found


def attributes(trial: Trial, gpus: float = 0.0) -> dict[str, JsonValue]:
    """What a person sees beside a trial, which holds so many GPUs, in Optuna Dashboard."""
    found: dict[str, JsonValue] = {"source": trial.source, "state": str(trial.state)}
    if trial.source.startswith("pbt-"):
        # Optuna never changes a parameter; these are the values after the last exchange of a population.
        found["last_values"] = json.dumps(clean.plain(trial.params), sort_keys=True)
    if trial.attempt is not None:
        found["attempt"] = trial.attempt.number
    if trial.state is not TrialState.RUNNING:
        found["cost_s"] = round(trial.cost_s, 3)
        found["gpu_hours"] = round(trial.cost_s * gpus / 3600, 6)
    if trial.reason is not None:
        found["pruner"], found["reason"] = trial.reason.pruner, clean.text(trial.reason.text)
    if trial.error_kind is not None:
        found["error"] = f"{trial.error_kind}: {clean.text(trial.error_message)}"
    return found


def _scalar(value: JsonValue, domain: Choice) -> Scalar:
    # Optuna compares choices with ==, for which 1, 1.0 and True are one; in doubt all are told apart by their JSON.
    plain = all(option is None or isinstance(option, (bool, int, float, str)) for option in domain.options)
    distinct = plain and len(set(domain.options)) == len(domain.options)
    return value if distinct and not isinstance(value, (list, dict)) else json.dumps(value, sort_keys=True)
