"""Rules over the keys of the reward."""

from __future__ import annotations

import re

from trainer.config.problems import ConfigProblem
from trainer.config.schema import ComponentConfig, Config

TAKEN_NAMES = (
    "mean",
    "std",
    "max",
    "running_mean",
    "running_std",
    "margin",
    "accuracy",
    "reward",
    "length_mean",
    "truncated_fraction",
)
"""What a component may not be called: `reward/<name>` and `eval/<name>` are other metrics already."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_ONE = "function, model.path and components"


def reward_problems(config: Config) -> list[ConfigProblem]:
    """Every rule on rewards that this configuration breaks."""
    reward = config.reward
    problems = _sources(config)
    if reward.eval_name is not None and reward.eval_function is not None:
        message = (
            f"reward.eval_name = {reward.eval_name!r} and reward.eval_function = "
            f"{reward.eval_function!r}: at most one may be set"
        )
        problems.append(ConfigProblem(path="reward", message=message, hint="set one of the two to null"))
    functions = {"reward.function": reward.function, "reward.eval_function": reward.eval_function}
    for name, component in reward.components.items():
        functions[f"reward.components.{name}.function"] = component.function
        problems += _component(name, component)
    for path, function in functions.items():
        if function is not None and (function.count(":") != 1 or not all(function.split(":"))):
            message = f"got {function!r}, must be 'module:function'"
            problems.append(ConfigProblem(path=path, message=message, hint="for example my_rewards:score"))
    if reward.model.label is not None and reward.model.path is None:
        message = f"got {reward.model.label}, but reward.model.path is null"
        hint = "set the path; a component has a label of its own"
        problems.append(ConfigProblem(path="reward.model.label", message=message, hint=hint))
    return problems


def _sources(config: Config) -> list[ConfigProblem]:
    """Where the reward comes from must be said once."""
    reward = config.reward
    given = {
        "reward.name": reward.name,
        "reward.function": reward.function,
        "reward.model.path": reward.model.path,
        "reward.components": ", ".join(reward.components) or None,
    }
    found = {key: value for key, value in given.items() if value is not None}
    if len(found) == 1 or (not found and config.algorithm.learns_from_preferences):
        return []
    shown = " and ".join(f"{key} = {value!r}" for key, value in (found or given).items())
    hint = "set all but one of them to null" if found else "set one of them; components makes a weighted sum"
    message = f"{shown}: exactly one of name, {_ONE} must be set"
    return [ConfigProblem(path="reward", message=message, hint=hint)]


def _component(name: str, component: ComponentConfig) -> list[ConfigProblem]:
    path = f"reward.components.{name}"
    problems = []
    if not _NAME.fullmatch(name) or name in TAKEN_NAMES:
        taken = f"reward/{name} or eval/{name} is another metric" if name in TAKEN_NAMES else "must be like_this"
        message = f"got the name {name!r}: {taken}"
        hint = f"use small letters, digits and '_', and none of {', '.join(TAKEN_NAMES)}"
        problems.append(ConfigProblem(path=path, message=message, hint=hint))
    given = {key: getattr(component, key) for key in ("name", "function", "model")}
    if sum(value is not None for value in given.values()) != 1:
        shown = ", ".join(f"{key} = {value!r}" for key, value in given.items())
        message = f"got {shown}: exactly one of them must be set"
        problems.append(ConfigProblem(path=path, message=message, hint="for example name: exact_match"))
    if component.label is not None and component.model is None:
        message = f"got {component.label}, but the component is no model"
        problems.append(ConfigProblem(path=f"{path}.label", message=message, hint="set it to null"))
    return problems
