"""Find the reward function and call it with care."""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

import torch

from trainer.config import ComponentConfig, ConfigError, ConfigProblem, RewardConfig
from trainer.data import Example
from trainer.failures import DataError, NonFiniteError
from trainer.rewards.limit import TimeLimit, TooSlowError
from trainer.rewards.model import load_reward_model
from trainer.rewards.weighted import Component, Scorer, WeightedReward

RewardFunction: TypeAlias = Callable[..., object]
POSITIONAL = ("prompt", "response", "ground_truth")
# What a function may ask for by name; `solution_str` is verl's word for the response.
NAMES = (*POSITIONAL, "solution_str", "data_source", "extra_info")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reward:
    """A reward function and how to call it.

    Attributes:
        function: Built in or a person's own.
        by_name: The arguments that it takes by name; empty means prompt, response and ground truth by position.
        limit: Ends the wait for a person's own function; None trusts it.
    """

    function: RewardFunction
    by_name: tuple[str, ...] = ()
    limit: TimeLimit | None = None

    def all(self, examples: Sequence[Example], responses: Sequence[str]) -> list[float]:
        """What each response is worth; raises as `of`."""
        return [self.of(example, response) for example, response in zip(examples, responses, strict=True)]

    def of(self, example: Example, response: str) -> float:
        """What a response is worth.

        Raises:
            DataError: The function raises, returns no number, or takes too long.
            NonFiniteError: It returns NaN or an infinity, which no update could survive.
        """
        shown = f"for the prompt {example.prompt!r} and the response {response!r}"
        name = getattr(self.function, "__name__", repr(self.function))
        try:
            value = float(cast(float, self._called(example, response)))
        except MemoryError:
            raise
        except TooSlowError as error:
            raise DataError(
                f"the reward function '{name}' took longer than {error.seconds:g} s {shown}",
                hint="make it faster, or raise reward.timeout_s",
            ) from error
        except Exception as error:  # a person's function may raise anything
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

    def _called(self, example: Example, response: str) -> object:
        known = {
            "prompt": example.prompt,
            "response": response,
            "ground_truth": example.ground_truth,
            "solution_str": response,
            "data_source": example.data_source,
            "extra_info": example.extra_info,
        }
        named = {name: known[name] for name in self.by_name}
        ordered = () if named else tuple(known[name] for name in POSITIONAL)
        if self.limit is None:
            return self.function(*ordered, **named)
        return self.limit.call(lambda: self.function(*ordered, **named))


def load_reward(
    config: RewardConfig, registry: Mapping[str, RewardFunction], device: torch.device | None = None
) -> Scorer:
    """The reward that training maximises: a function, a model, or a weighted sum of such.

    A person's own module is looked for on the import path and in the working directory.

    Args:
        config: Says which.
        registry: The built-in rewards.
        device: Where a reward model runs unless `config` says otherwise; None is the CPU.

    Raises:
        ConfigError: The module or function cannot be found, is no function, or takes other arguments; or the model
            cannot be used.
    """
    place = torch.device("cpu") if device is None else device
    if config.components:
        parts = tuple(
            Component(name=name, weight=part.weight, scorer=_component(name, part, config, registry, place))
            for name, part in config.components.items()
        )
        return WeightedReward(components=parts)
    if config.model.path is not None:
        keys = ("reward.model.path", "reward.model.label")
        return load_reward_model(config.model.path, config.model.label, config.model, place, keys=keys)
    if config.name is not None:
        return Reward(function=registry[config.name])
    return _own("reward.function", cast(str, config.function), config.timeout_s)


def _component(
    name: str,
    part: ComponentConfig,
    config: RewardConfig,
    registry: Mapping[str, RewardFunction],
    device: torch.device,
) -> Scorer:
    path = f"reward.components.{name}"
    if part.model is not None:
        keys = (f"{path}.model", f"{path}.label")
        return load_reward_model(part.model, part.label, config.model, device, keys=keys)
    if part.name is not None:
        return Reward(function=registry[part.name])
    return _own(f"{path}.function", cast(str, part.function), config.timeout_s)


def load_eval_reward(
    config: RewardConfig, registry: Mapping[str, RewardFunction], training: Scorer | None
) -> Scorer | None:
    """The reward that the evaluation reports: its own if one is set, otherwise the training's.

    Args:
        config: The configuration.
        registry: The built-in rewards.
        training: What `load_reward` returned; None when training needs no reward.

    Raises:
        ConfigError: As `load_reward`.
    """
    if config.eval_name is not None:
        return Reward(function=registry[config.eval_name])
    if config.eval_function is not None:
        return _own("reward.eval_function", config.eval_function, config.timeout_s)
    return training


def _own(key: str, path: str, timeout_s: float) -> Reward:
    """A person's own reward function."""
    module_name, _, function_name = path.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except Exception as error:  # a person's module may raise anything while it is imported
        message = f"cannot load '{path}': {type(error).__name__}: {error}"
        raise _refused(
            key, message, "must be 'module:function', the module on PYTHONPATH or in the working directory"
        ) from error
    if not callable(function):
        raise _refused(key, f"'{path}' is a {type(function).__name__}, must be a function", "")
    return Reward(function=function, by_name=_by_name(key, path, function), limit=TimeLimit(seconds=timeout_s))


def _by_name(key: str, path: str, function: RewardFunction) -> tuple[str, ...]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built in C, without a signature
        return ()
    parameters = signature.parameters.values()
    single = [item for item in parameters if item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)]
    required = [item.name for item in single if item.default is item.empty]
    named = tuple(item.name for item in single if item.name in NAMES and item.kind is not item.POSITIONAL_ONLY)
    if named and set(required) <= set(named):
        return named
    try:
        signature.bind(*POSITIONAL)
    except TypeError as error:
        message = f"'{path}' takes {signature}: cannot be called with {', '.join(POSITIONAL)}"
        raise _refused(key, message, f"name its parameters with some of {', '.join(NAMES)}") from error
    return ()


def _refused(key: str, message: str, hint: str) -> ConfigError:
    return ConfigError([ConfigProblem(path=key, message=message, hint=hint)])
