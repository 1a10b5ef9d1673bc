"""Keys and values of sequences that are being sampled, in memory that is taken once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer

if TYPE_CHECKING:
    from transformers import PretrainedConfig


class ReservedLayer(DynamicLayer):
    """One layer's keys and values `[batch, heads, capacity, head]`; attention sees the part that is filled.

    transformers' own growing cache copies everything for each token, and its static one attends over places that are
    not filled yet.

    Args:
        capacity: Most tokens per sequence.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self._capacity = capacity
        self._room: tuple[Tensor, Tensor] | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, *arguments: object, **named: object
    ) -> tuple[Tensor, Tensor]:
        """Put the new tokens behind the others; returns all."""
        del arguments, named
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        if self._room is None:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            self._room = self._reserved(key_states), self._reserved(value_states)
        keys, values = self._room
        keys[:, :, start:end] = key_states
        values[:, :, start:end] = value_states
        self.keys, self.values = keys[:, :, :end], values[:, :, :end]
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Go on with these rows, in this order; a row may come more than once."""
        keys, values = self.keys, self.values
        self._room = self._reserved(keys, len(indices)), self._reserved(values, len(indices))
        end = keys.shape[-2]
        for room, states in zip(self._room, (keys, values), strict=True):
            room[:, :, :end] = states[indices]
        self.keys, self.values = (room[:, :, :end] for room in self._room)

    def _reserved(self, like: Tensor, rows: int | None = None) -> Tensor:
        batch, heads, _, size = like.shape
        return like.new_empty(batch if rows is None else rows, heads, self._capacity, size)


def reserved_cache(config: PretrainedConfig, capacity: int) -> DynamicCache:
    """A cache for `capacity` tokens per sequence; layers that keep less than all tokens stay transformers' own."""
    cache = DynamicCache(config=config)
    cache.layers = [ReservedLayer(capacity) if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


def rows_can_move(cache: DynamicCache) -> bool:
    """Whether rows of the cache can be repeated and dropped: not where a layer keeps a state of another kind."""
    return bool(cache.layers) and all(isinstance(layer, DynamicLayer) for layer in cache.layers)


def distinct(prompts: list[tuple[int, ...]]) -> tuple[list[int], list[int]]:
    """Equal prompts found.

    Returns:
        A row of each distinct prompt, and the place of every row's prompt among these.
    """
    places: dict[tuple[int, ...], int] = {}
    of_row = [places.setdefault(prompt, len(places)) for prompt in prompts]
    first = [of_row.index(place) for place in range(len(places))]
    return first, of_row
