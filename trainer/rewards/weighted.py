"""A weighted sum of rewards, each of them reported by its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trainer.data import Example
from trainer.failures import DataError, NonFiniteError


class Scorer(Protocol):
    """What says what responses are worth: a function, a model, or a sum of such."""

    def all(self, examples: Sequence[Example], responses: Sequence[str]) -> list[float]:
        """What each response is worth."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """One of several rewards.

    Attributes:
        name: What its metric is called: `reward/<name>`.
        weight: Its factor in the sum.
        scorer: What it is.
    """

    name: str
    weight: float
    scorer: Scorer


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightedReward:
    """The sum of weight times value.

    Attributes:
        components: Its parts.
    """

    components: tuple[Component, ...]

    def all(self, examples: Sequence[Example], responses: Sequence[str]) -> list[float]:
        """The sum for each response."""
        return [row[0] for row in self.rows(examples, responses)]

    def rows(self, examples: Sequence[Example], responses: Sequence[str]) -> list[list[float]]:
        """For each response the sum, then the value of each component before its weight.

        Raises:
            DataError: A component fails or takes too long; the message names it.
            NonFiniteError: A component is not finite; the message names it.
        """
        columns = [_values(component, examples, responses) for component in self.components]
        weights = [component.weight for component in self.components]
        return [
            [sum(weight * value for weight, value in zip(weights, row, strict=True)), *row]
            for row in zip(*columns, strict=True)
        ]


def component_names(reward: Scorer) -> tuple[str, ...]:
    """The names of a reward's components; none for one that is no sum."""
    return tuple(component.name for component in reward.components) if isinstance(reward, WeightedReward) else ()


def score_rows(reward: Scorer, examples: Sequence[Example], responses: Sequence[str]) -> list[list[float]]:
    """What each response is worth, followed by its components in the order of `component_names`."""
    if isinstance(reward, WeightedReward):
        return reward.rows(examples, responses)
    return [[value] for value in reward.all(examples, responses)]


def _values(component: Component, examples: Sequence[Example], responses: Sequence[str]) -> list[float]:
    try:
        return component.scorer.all(examples, responses)
    except (DataError, NonFiniteError) as error:
        raise type(error)(f"reward.components.{component.name}: {error}", hint=error.hint) from error
