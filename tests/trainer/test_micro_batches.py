"""Token-budget micro-batches: each row once, within budget, balanced, equally many on every rank, in order again."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.config import TrainerConfig, build, compose
from trainer.distributed import World
from trainer.loop.micro_batches import MicroBatch, balanced, micro_batches, restored

PROMPT, RESPONSE = 4, 6
SIZES = st.lists(st.tuples(st.integers(1, PROMPT), st.integers(1, RESPONSE)), min_size=1, max_size=12)


def cost(sizes: list[tuple[int, int]], part: list[int]) -> int:
    return len(part) * (max(sizes[place][0] for place in part) + max(sizes[place][1] for place in part))


def dynamic(budget: int) -> TrainerConfig:
    settings = build(compose()).trainer
    return dataclasses.replace(settings, use_dynamic_bsz=True, ppo_max_token_len_per_gpu=budget)


def rank(number: int, size: int) -> World:
    return World(rank=number, size=size, device=torch.device("cpu"), mesh=None)  # type: ignore[arg-type]


def attention(sizes: list[tuple[int, int]]) -> torch.Tensor:
    rows = [[0] * (PROMPT - p) + [1] * p + [1] * r + [0] * (RESPONSE - r) for p, r in sizes]
    return torch.tensor(rows)


@given(SIZES, st.integers(PROMPT + RESPONSE, 60), st.data())
@settings(max_examples=80, deadline=None)
def test_each_sequence_is_in_one_part_within_the_budget(
    sizes: list[tuple[int, int]], budget: int, data: st.DataObject
) -> None:
    fewest = next(n for n in range(1, len(sizes) + 1) if fits(sizes, n, budget))
    count = data.draw(st.integers(fewest, len(sizes)))
    parts = balanced(sizes, count, budget)
    assert len(parts) == count
    assert sorted(place for part in parts for place in part) == list(range(len(sizes)))
    assert all(cost(sizes, part) <= budget for part in parts)


def fits(sizes: list[tuple[int, int]], count: int, limit: int) -> bool:
    """Whether the sequences, longest first, can be cut into at most `count` runs that cost at most `limit` each."""
    order = sorted(range(len(sizes)), key=lambda place: (-sum(sizes[place]), place))
    best = [0] + [len(sizes) + 1] * len(sizes)
    for end in range(1, len(order) + 1):
        for start in range(end):
            if cost(sizes, order[start:end]) <= limit:
                best[end] = min(best[end], best[start] + 1)
    return best[-1] <= count


@given(SIZES, st.integers(PROMPT + RESPONSE, 60))
@settings(max_examples=60, deadline=None)
def test_the_fullest_part_is_as_small_as_the_number_of_parts_allows(sizes: list[tuple[int, int]], budget: int) -> None:
    count = next(n for n in range(1, len(sizes) + 1) if fits(sizes, n, budget))
    fullest = max(cost(sizes, part) for part in balanced(sizes, count, budget))
    assert fits(sizes, count, fullest)
    assert not fits(sizes, count, fullest - 1)


@given(st.integers(1, 5), st.integers(PROMPT + RESPONSE, 40), st.data())
@settings(max_examples=40, deadline=None)
def test_every_rank_has_equally_many_micro_batches_and_all_rows_are_there_once(
    share: int, budget: int, data: st.DataObject
) -> None:
    size = st.tuples(st.integers(1, PROMPT), st.integers(0, RESPONSE))
    sizes = data.draw(st.lists(size, min_size=3 * share, max_size=3 * share))
    rows = torch.randperm(3 * share, generator=torch.Generator().manual_seed(0))
    mask = attention(sizes)
    ranks = [micro_batches(rows.chunk(3), mask, RESPONSE, dynamic(budget), rank(n, 3)) for n in range(3)]
    assert len({len(micros) for micros in ranks}) == 1
    seen = [row for micros in ranks for micro in micros for row in micro.rows.tolist()]
    assert sorted(seen) == list(range(3 * share))
    for micro in [micro for micros in ranks for micro in micros]:
        kept = micro.sequences(mask, RESPONSE)
        assert kept.shape == (len(micro.rows), micro.prompt + micro.response)
        assert kept.numel() <= budget
        assert kept.sum() == mask[micro.rows].sum(), "only padding may be cut"


def test_results_come_back_in_the_order_of_the_batch() -> None:
    values = torch.arange(12.0).view(4, 3)
    micros = [
        MicroBatch(rows=torch.tensor([2, 0]), prompt=1, response=3),
        MicroBatch(rows=torch.tensor([3, 1]), prompt=1, response=2),
    ]
    back = restored([micro.responses(values) for micro in micros], micros, 3)
    assert back.tolist() == [[0, 1, 2], [3, 4, 0], [6, 7, 8], [9, 10, 0]]


def test_rows_of_like_length_go_together_and_lose_their_padding_without_a_token_budget() -> None:
    mask = attention([(1, 1), (2, 6), (4, 2), (1, 2)])
    settings = dataclasses.replace(dynamic(10), use_dynamic_bsz=False, ppo_micro_batch_size_per_gpu=2)
    micros = micro_batches([torch.tensor([3, 0, 2, 1])], mask, RESPONSE, settings, rank(0, 1))
    assert [micro.rows.tolist() for micro in micros] == [[1, 2], [3, 0]]
    assert [micro.sequences(mask, RESPONSE).shape for micro in micros] == [(2, 10), (2, 3)]


@given(SIZES, st.integers(PROMPT + RESPONSE, 60))
@settings(max_examples=60, deadline=None)
def test_without_padding_the_tokens_alone_count(sizes: list[tuple[int, int]], budget: int) -> None:
    settings = dataclasses.replace(dynamic(budget), use_remove_padding=True)
    mask = attention(sizes)
    micros = micro_batches([torch.arange(len(sizes))], mask, RESPONSE, settings, rank(0, 1))
    tokens = [int(mask[micro.rows].sum()) for micro in micros]
    assert max(tokens) <= budget
    assert sum(tokens) == int(mask.sum())
    # Filled longest first, each part but the last is more than half full.
    assert len(micros) <= 1 + 2 * sum(tokens) // budget


@pytest.mark.parametrize("budget", [10, 11, 20])
def test_an_empty_response_takes_one_place(budget: int) -> None:
    mask = attention([(4, 0), (1, 0)])
    micros = micro_batches([torch.arange(2)], mask, RESPONSE, dynamic(budget), rank(0, 1))
    assert [micro.response for micro in micros] == [1] * len(micros)
