"""From a script that starts verl to a space file: its settings as they are, and a search proposed around them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from autotune.backends.verl.names import ACTOR
from autotune.backends.verl.script import UNKNOWN, Found, find_command
from autotune.errors import InvalidConfigError
from autotune.spec.values import JsonValue

_STEPS = "trainer.total_training_steps"
_OURS = ("trainer.default_local_dir", "trainer.resume_mode", "trainer.resume_from_path", "hydra.run.dir")
"""What autotune sets itself."""
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """A space file made from a script.

    Attributes:
        text: The space file.
        notes: What could not be taken over, and what to look at.
    """

    text: str
    notes: tuple[str, ...]


def import_script(text: str, *, name: str, python: str = "") -> Imported:
    """Turns a launch script or a command line of verl into a space file.

    Args:
        text: The script; it is read, never run.
        name: The name of the space.
        python: The interpreter, where the script's is not the one to use.

    Raises:
        InvalidConfigError: If nothing in the text starts verl's PPO trainer.
    """
    found = find_command(text)
    if found is None:
        raise InvalidConfigError(
            "there is no command that starts verl.trainer.main_ppo in it.",
            hint="Give the script, or a file with the command line, that you start verl with.",
        )
    notes: list[str] = []
    overrides, config = _overrides(found, notes)
    search, start = _proposal(overrides)
    prune: list[JsonValue] = [{"not_finite": {"patience": 3}}]
    if any("kl_" in key for key in search):
        prune.insert(0, {"kl_ceiling": {"above": 0.15, "patience": 3}})
    gpus = overrides.get("trainer.n_gpus_per_node", 8)
    if not isinstance(overrides.get(_STEPS), int):
        overrides[_STEPS] = 100
        notes.append(f"the script sets no {_STEPS}; took 100, look at it.")
    document: dict[str, JsonValue] = {
        "name": name,
        "description": "Made from a script that starts verl",
        "trainer": {
            "backend": "verl",
            "python": python or found.python,
            **({"config": config} if config else {}),
            **({"env": _env(found, notes)} if _env(found, []) else {}),
            "overrides": {key: value for key, value in overrides.items() if key not in start},
        },
        "resources": {"gpus": gpus, "cpus": 8 * gpus if isinstance(gpus, int) else 8},
        "search": search,
        "objective": {"metric": "eval/reward", "direction": "maximize", "smooth": 2},
        "prune": prune,
        "budget": {"trials": max(8, 4 * len(search))},
        "start_from": [dict(start)],
    }
    head = [
        "# Made by autotune import-verl. The first trial runs the script's own values; look at the ranges under search."
    ]
    head += [f"# Note: {note}" for note in notes]
    body = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
    return Imported(text="\n".join([*head, body]), notes=tuple(notes))


def _overrides(found: Found, notes: list[str]) -> tuple[dict[str, JsonValue], str]:
    values: dict[str, JsonValue] = {}
    config, arguments = "", list(found.arguments)
    while arguments:
        word = arguments.pop(0)
        option, _, inline = word.partition("=")
        if option in ("--config-name", "-cn"):
            config = inline or (arguments.pop(0) if arguments else "")
            config = config.removesuffix(".yaml")
        elif option in ("--config-path", "-cp", "--config-dir", "-cd"):
            place = inline or (arguments.pop(0) if arguments else "")
            notes.append(f"{option} {place} is not taken over: put what that configuration sets under overrides.")
        elif word.startswith(("-", "~")) or "=" not in word:
            notes.append(f"{word!r} is not taken over.")
        elif UNKNOWN in word:
            notes.append(f"{option} depends on what only the running script knows; set it yourself.")
        elif option.lstrip("+") in _OURS:
            notes.append(f"{option} is left out: each trial has its own.")
        else:
            key = option[1:] if option.startswith("++") else option
            values[key] = value_of(inline)
    return values, config


def value_of(text: str) -> JsonValue:
    """A value as Hydra reads it."""
    if _NUMBER.fullmatch(text):
        return float(text) if re.search(r"[.eE]", text) else int(text)
    lower = text.lower()
    if lower in ("true", "false", "null", "none"):
        return {"true": True, "false": False}.get(lower)
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text.startswith(("[", "{")):
        try:
            read: JsonValue = yaml.safe_load(text.replace(":", ": ") if text.startswith("{") else text)
        except yaml.YAMLError:
            return text
        return read
    return text


def _env(found: Found, notes: list[str]) -> dict[str, JsonValue]:
    kept: dict[str, JsonValue] = {name: value for name, value in found.env.items() if UNKNOWN not in value}
    notes += [
        f"the variable {name} is only known to the running script; set it yourself." for name in found.env.keys() - kept
    ]
    return kept


def _proposal(values: Mapping[str, JsonValue]) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    """What to search around the script's own values, and those values: by verl's own keys."""
    search: dict[str, JsonValue] = {}
    start: dict[str, JsonValue] = {}

    def around(key: str, default: float, factor: float) -> None:
        value = values.get(key, default)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            search[key] = {"float": [_short(value / factor), _short(value * factor)], "log": True}
            start[key] = float(value)

    around(f"{ACTOR}.optim.lr", 1e-6, 5)
    if values.get("algorithm.adv_estimator", "gae") == "gae":
        around("critic.optim.lr", 1e-5, 5)
    in_reward, coefficient = values.get("algorithm.use_kl_in_reward"), "algorithm.kl_ctrl.kl_coef"
    if values.get(f"{ACTOR}.use_kl_loss") is True and in_reward is not True:
        around(f"{ACTOR}.kl_loss_coef", 0.001, 10)
    elif in_reward is True or (in_reward is None and coefficient in values):
        around(coefficient, 0.001, 10)
    epochs = values.get(f"{ACTOR}.ppo_epochs", 1)
    if isinstance(epochs, int) and epochs >= 1:
        search[f"{ACTOR}.ppo_epochs"] = {"int": [1, max(3, epochs)]}
        start[f"{ACTOR}.ppo_epochs"] = epochs
    return search, start


def _short(value: float) -> float:
    """Two figures are enough for the end of a range; never beyond the value it comes from."""
    return float(f"{value:.2g}") if math.isfinite(value) else value
