"""The memory of sampling: filled in place, rows repeated and dropped."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, MistralConfig
from transformers.cache_utils import DynamicLayer

from trainer.rollout.kv_cache import ReservedLayer, distinct, reserved_cache, rows_can_move


def states(rows: int, tokens: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(rows, 2, tokens, 4, generator=draw) for _ in range(2))


def test_it_holds_what_the_growing_cache_of_transformers_holds() -> None:
    ours, theirs = ReservedLayer(10), DynamicLayer()
    for seed, tokens in enumerate((4, 1, 1)):
        for got, wanted in zip(
            ours.update(*states(3, tokens, seed)), theirs.update(*states(3, tokens, seed)), strict=True
        ):
            assert torch.equal(got, wanted)
        assert ours.get_seq_length() == theirs.get_seq_length()
        assert ours.get_mask_sizes(1) == theirs.get_mask_sizes(1)
    kept = torch.tensor([2, 0, 2, 2])
    ours.batch_select_indices(kept)
    theirs.batch_select_indices(kept)
    for got, wanted in zip(ours.update(*states(4, 2, 9)), theirs.update(*states(4, 2, 9)), strict=True):
        assert torch.equal(got, wanted)


def test_a_token_is_written_behind_the_others_without_copying_them() -> None:
    layer = ReservedLayer(8)
    keys, _ = layer.update(*states(2, 5, 0))
    after, _ = layer.update(*states(2, 1, 1))
    assert keys.data_ptr() == after.data_ptr()


def test_layers_that_forget_stay_those_of_transformers() -> None:
    whole = reserved_cache(LlamaConfig(num_hidden_layers=2), 16)
    windowed = reserved_cache(MistralConfig(num_hidden_layers=2, sliding_window=4), 16)
    assert [type(layer) for layer in whole.layers] == [ReservedLayer, ReservedLayer]
    assert not any(isinstance(layer, ReservedLayer) for layer in windowed.layers)
    assert rows_can_move(whole)
    assert rows_can_move(windowed)


def test_equal_prompts_are_read_once() -> None:
    assert distinct([(1, 2), (3,), (1, 2), (3,), (4,)]) == ([0, 1, 4], [0, 1, 0, 1, 2])
