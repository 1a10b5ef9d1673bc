"""Find the reward function and call it with care."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias, cast

from trainer.config import ConfigError, ConfigProblem, RewardConfig
from trainer.failures import DataError, NonFiniteError

RewardFunction: TypeAlias = Callable[[str, str, str], float]


def load_reward(config: RewardConfig, registry: Mapping[str, RewardFunction]) -> RewardFunction:
    """The reward function of a configuration.

    A person's own module is looked for on the import path and in the working directory.

    Raises:
        ConfigError: The module or function cannot be found, or is no function.
    """
    if config.name is not None:
        return registry[config.name]
    path = cast(str, config.function)
    module_name, _, function_name = path.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except Exception as error:  # a person's module may raise anything while it is imported
        message = f"cannot load '{path}': {type(error).__name__}: {error}"
        hint = "must be 'module:function', the module on PYTHONPATH or in the working directory"
        raise ConfigError([ConfigProblem(path="reward.function", message=message, hint=hint)]) from error
    if not callable(function):
        message = f"'{path}' is a {type(function).__name__}, must be a function"
        raise ConfigError([ConfigProblem(path="reward.function", message=message, hint="")])
    return cast(RewardFunction, function)


def score(function: RewardFunction, prompt: str, response: str, ground_truth: str) -> float:
    """Call a reward function on one response.

    Raises:
        DataError: It raises or returns no number.
        NonFiniteError: It returns NaN or an infinity, which no update could survive.
    """
    shown = f"for the prompt {prompt!r} and the response {response!r}"
    try:
        value = float(function(prompt, response, ground_truth))
    except MemoryError:
        raise
    except Exception as error:  # a person's function may raise anything
        name = getattr(function, "__name__", repr(function))
        raise DataError(
            f"the reward function '{name}' failed {shown}: {type(error).__name__}: {error}",
            hint="it must return a number for every response, also an empty one",
        ) from error
    if not math.isfinite(value):
        raise NonFiniteError(
            f"the reward is {value} {shown}",
            hint="return a finite number, for example 0.0 for a response without worth",
        )
    return value
