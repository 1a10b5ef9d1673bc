"""From a trainer section, or from a trial's configuration, to the settings that verl gets."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.backends.value_types import typed
from autotune.backends.verl.dead import resolve
from autotune.backends.verl.names import FRACTIONS, PARAMETERS, REF, ROLLOUT
from autotune.backends.verl.rules import broken_rules
from autotune.backends.verl.settings import GROUPS, Draft, draft
from autotune.backends.verl.tree import compose_tree, override, with_values
from autotune.errors import Problem
from autotune.spec.values import FlatConfig, JsonValue

STEPS = "trainer.total_training_steps"
_ENGINE = f"{ROLLOUT}.name"
_MISSING = "???"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What one configuration comes to.

    Attributes:
        values: verl's key -> value for everything that is set.
        notes: What was changed or does nothing, one sentence each.
        problems: What cannot be run; ``path`` is a given name, or empty where nobody gave the value.
        tree: The whole composed tree with the values in it, flat.
    """

    values: Mapping[str, JsonValue]
    notes: Sequence[str]
    problems: Sequence[Problem]
    tree: FlatConfig


def plan(configs: Path, config: str, given: FlatConfig, searched: Sequence[str]) -> Plan:
    """Translates, repairs, composes and checks.

    Args:
        configs: The directory of verl's configurations.
        config: Name of the Hydra configuration.
        given: Our names or verl's keys -> value: fixed and searched ones.
        searched: Which of them differ from trial to trial.

    Raises:
        ValueError: If verl's configuration cannot be composed at all.
    """
    groups = _groups(given)
    bare = bare_tree(configs, config, given)
    settings = draft({"trainer.seed": 0, **given}, bare)
    for key in GROUPS:
        settings.values.pop(key, None)
    wrong_types = _types(settings, bare)
    resolve(settings, bare, searched)
    if not wrong_types:
        _defaults(settings, bare)
    values = {key.removeprefix("+"): value for key, value in settings.values.items()}
    tree = with_values(configs, config, groups, values)
    problems = [*settings.problems, *wrong_types]
    if not problems:
        problems = [_blame(broken.keys, broken.message, broken.hint, settings) for broken in broken_rules(tree)]
    written = {key: given[key] for key in GROUPS if key in given}
    return Plan(values={**written, **settings.values}, notes=settings.notes, problems=problems, tree=tree)


@functools.lru_cache(maxsize=32)
def plan_of(configs: Path, config: str, given: str, searched: tuple[str, ...]) -> Plan:
    """The same, remembered; ``given`` as JSON."""
    return plan(configs, config, json.loads(given), searched)


def bare_tree(configs: Path, config: str, given: FlatConfig) -> FlatConfig:
    """The tree as verl has it, with the chosen groups and nothing else.

    Raises:
        ValueError: If it cannot be composed.
    """
    return compose_tree(configs, config, _groups(given))


def _groups(given: FlatConfig) -> tuple[str, ...]:
    return tuple(override(key, given[key]) for key in GROUPS if key in given)


def _types(settings: Draft, bare: FlatConfig) -> list[Problem]:
    found: dict[str, Problem] = {}
    for key, value in settings.values.items():
        default, origin = bare.get(key), settings.origins[key]
        mapped = PARAMETERS.get(origin)
        if (
            isinstance(default, int)
            and not isinstance(default, bool)
            and (key in FRACTIONS or (mapped and mapped.fraction))
        ):
            default = float(default)
        if mapped and mapped.words and isinstance(value, str):
            hint = f"Known are {', '.join(mapped.words)}."
            found.setdefault(origin, Problem(message=f"verl cannot do {value!r}.", hint=hint, path=origin))
        elif default != _MISSING and not isinstance(value, list | dict) and not isinstance(default, list | dict):
            for problem in typed(origin, default, {origin: value}):
                found.setdefault(origin, problem)
    return list(found.values())


def _defaults(settings: Draft, bare: FlatConfig) -> None:
    """What verl leaves open and a search cannot."""
    if bare.get(_ENGINE) == _MISSING and not settings.given(_ENGINE):
        settings.repair(_ENGINE, "vllm", _ENGINE, f"{_ENGINE} was not given; took vllm.")
    steps = settings.values.get(STEPS)
    if isinstance(steps, int) and steps > 0:
        epochs = settings.values.get("trainer.total_epochs", bare.get("trainer.total_epochs"))
        if not settings.given("trainer.total_epochs") and isinstance(epochs, int) and epochs < steps:
            note = f"trainer.total_epochs could end the run before step {steps}; raised it to {steps}."
            settings.repair("trainer.total_epochs", steps, STEPS, note)
        every = bare.get("trainer.test_freq")
        if not settings.given("trainer.test_freq") and isinstance(every, int) and every <= 0:
            often = max(1, steps // 10)
            note = f"trainer.test_freq was off, so no validation metric would come; set it to {often}."
            settings.repair("trainer.test_freq", often, STEPS, note)
    _reference(settings, bare)
    logger = settings.values.get("trainer.logger", [])
    wanted = [str(name) for name in logger] if isinstance(logger, list) else [str(logger)]
    settings.values["trainer.logger"] = [*dict.fromkeys(["console", "file", *wanted])]
    settings.origins.setdefault("trainer.logger", "trainer.logger")


def _reference(settings: Draft, bare: FlatConfig) -> None:
    """A KL term that was switched on above needs the reference, and that needs a micro-batch size."""
    own, rollout = (f"{part}.log_prob_micro_batch_size_per_gpu" for part in (REF, ROLLOUT))
    size = settings.values.get(rollout, bare.get(rollout))
    if size is not None and not settings.given(own) and not settings.given(own.removesuffix("_per_gpu")):
        settings.values[own] = size
        settings.origins[own] = settings.origins.get(rollout, rollout)


def _blame(keys: Sequence[str], message: str, hint: str, settings: Draft) -> Problem:
    """A problem at the first of the keys that somebody gave, or at none."""
    origin = next((settings.origins[key] for key in keys if key in settings.origins), "")
    about = "" if origin == keys[0] else f"{keys[0]}: "
    return Problem(message=f"{about}{message}", hint=hint, path=origin)
